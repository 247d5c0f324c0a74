//! The cards: one line each, or a title with graphs where there is room. MIG instances stand under their card.

use gua_model::classify::holders;
use gua_model::since::{Since, Start};
use gua_model::text::short_age;
use gua_model::{Gpu, Missing, Place, Verdict, classify};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::style::Styles;
use crate::app::{App, Density, Medium};
use crate::format::{MISSING, bytes, clip, left, reading, right, width};
use crate::lost;
use crate::rows::{label, user_name};
use crate::spark::{bar, spark};
use crate::timeline::Moment;

/// Lines that the table keeps, its head among them.
const TABLE: u16 = 5;

/// Lines of one card at most: a title and a graph of seven lines.
const TALLEST: u16 = 8;

/// How many lines each card gets, and all of them together.
fn lines_each(app: &App, area: Rect) -> u16 {
    let sample = app.shown().map(|moment| &moment.sample);
    let gpus = || sample.into_iter().flat_map(|sample| &sample.gpus);
    let whole = count(gpus().filter(|gpu| gpu.place.parent().is_none()).count());
    let instances = count(gpus().count()) - whole;
    let most = match app.density {
        Density::OneLine => return 1,
        // Three fifths at most, so that the table has a say.
        Density::Auto => area.height / 5 * 3,
        Density::Graphs => area.height.saturating_sub(TABLE),
    };
    let room = most.saturating_sub(instances);
    (room / whole.max(1)).clamp(1, TALLEST)
}

/// What all cards take of an area.
pub(super) fn height(app: &App, area: Rect) -> u16 {
    let each = lines_each(app, area);
    let sample = app.shown().map(|moment| &moment.sample);
    let gpus = sample.into_iter().flat_map(|sample| &sample.gpus);
    let wanted = gpus
        .map(|gpu| lines_of(gpu, each))
        .fold(0, u16::saturating_add);
    let table = TABLE.min(area.height / 2);
    wanted
        .saturating_add(1)
        .min(area.height.saturating_sub(table))
}

/// The same on paper: two lines per card.
pub(super) fn paper_height(app: &App) -> u16 {
    let sample = app.shown().map(|moment| &moment.sample);
    let gpus = sample.into_iter().flat_map(|sample| &sample.gpus);
    gpus.map(|gpu| lines_of(gpu, 2))
        .fold(1, u16::saturating_add)
}

fn lines_of(gpu: &Gpu, each: u16) -> u16 {
    if gpu.place.parent().is_some() {
        1
    } else {
        each
    }
}

fn count(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

pub(super) fn draw(app: &mut App, index: usize, area: Rect, buffer: &mut Buffer, styles: Styles) {
    let Some(moment) = app.timeline.get(index) else {
        return;
    };
    if moment.sample.gpus.is_empty() {
        Line::styled("the driver shows no card", styles.bold()).render(area, buffer);
        return;
    }
    // As many as fit, from the first that was wished; the last page is full.
    let room = area.height.saturating_sub(1);
    let each = fitting(app, moment, room);
    let heights: Vec<u16> = moment
        .sample
        .gpus
        .iter()
        .map(|gpu| lines_of(gpu, each))
        .collect();
    let mut last_top = heights.len();
    let mut below = 0u16;
    while last_top > 0 && below.saturating_add(heights[last_top - 1]) <= room {
        last_top -= 1;
        below += heights[last_top];
    }
    let top = app.cards_top.min(last_top);
    let streaks = app.streaks_shown();
    let mut y = area.y;
    let end = area.y + room;
    let mut shown = 0;
    for (gpu, height) in moment.sample.gpus.iter().zip(&heights).skip(top) {
        if y + height > end {
            break;
        }
        let card = Card {
            app,
            index,
            gpu,
            verdict: classify(gpu, &app.setup.thresholds, None),
            since: streaks.since(&gpu.uuid),
            now: moment.sample.at,
            styles,
        };
        let place = Rect {
            y,
            height: *height,
            ..area
        };
        if *height == 1 {
            card.one_line(place, buffer);
        } else {
            card.graphs(place, buffer);
        }
        y += height;
        shown += 1;
    }
    let hidden = moment.sample.gpus.len() - shown;
    if hidden > 0 && y < area.y + area.height {
        let text = format!(
            "{hidden} more cards: J and K scroll ({}–{} of {})",
            top + 1,
            top + shown,
            moment.sample.gpus.len()
        );
        Line::styled(clip(&text, area.width.into()), styles.dim()).render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
    }
    drop(streaks);
    app.cards_top = top;
}

/// The number of lines per card with which all fit; one where they do not.
fn fitting(app: &App, moment: &Moment, room: u16) -> u16 {
    if app.density == Density::OneLine {
        return 1;
    }
    let total = |each: u16| {
        moment
            .sample
            .gpus
            .iter()
            .map(|gpu| lines_of(gpu, each))
            .fold(0, u16::saturating_add)
    };
    (1..=TALLEST)
        .rev()
        .find(|each| total(*each) <= room)
        .unwrap_or(1)
}

struct Card<'a> {
    app: &'a App,
    index: usize,
    gpu: &'a Gpu,
    verdict: Verdict,
    since: Option<Since>,
    now: jiff::Timestamp,
    styles: Styles,
}

/// What is drawn over time.
#[derive(Clone, Copy)]
enum Measure {
    Util,
    Memory,
    Power,
    Heat,
}

/// The heat at which a graph of heat begins and ends, in degrees.
const COOL: f64 = 20.0;
const HOT: f64 = 100.0;

impl Card<'_> {
    fn one_line(&self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.width);
        let indent = if self.gpu.place.parent().is_some() {
            "└"
        } else {
            ""
        };
        let cards = self.app.shown().map(|moment| &moment.sample.gpus);
        let has_instances =
            cards.is_some_and(|gpus| gpus.iter().any(|gpu| gpu.place.parent().is_some()));
        let number = left(
            &format!("{indent}{}", label(self.gpu)),
            if has_instances { 5 } else { 3 },
        );
        let (word, style) = self.badge();
        let state = left(word, if room < 24 { 11 } else { 12 });
        let util = right(&percent(self.gpu), 4);
        let parts: [(u8, String, Style); 8] = [
            (0, number, self.styles.bold()),
            (
                5,
                left(&self.name(), if room < 100 { 14 } else { 18 }),
                Style::new(),
            ),
            (1, state, style),
            (4, left(&self.age(), 7), self.styles.dim()),
            (2, util, style),
            (
                3,
                right(&self.memory(), 11),
                self.measure_style(Measure::Memory),
            ),
            (
                6,
                right(&self.watts(), 5),
                self.measure_style(Measure::Power),
            ),
            (7, right(&self.heat(), 5), self.measure_style(Measure::Heat)),
        ];
        let mut used = 0;
        let mut keep = [false; 8];
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|place| parts[*place].0);
        for place in order {
            let wide = width(&parts[place].1) + 1;
            if used + wide <= room + 1 {
                used += wide;
                keep[place] = true;
            }
        }
        let rest = room.saturating_sub(used);
        let mut spans = Vec::new();
        for (place, (_, text, style)) in parts.into_iter().enumerate() {
            if !keep[place] {
                continue;
            }
            spans.push(Span::styled(text, style));
            spans.push(Span::raw(" "));
            // The history stands behind the age, where there is room for one that says something.
            if place == 3 && rest >= 8 {
                let history = rest.min(60) - 1;
                spans.push(Span::styled(
                    self.line_of(Measure::Util, history),
                    self.styles.state(self.verdict.state),
                ));
                spans.push(Span::raw(" "));
            }
        }
        if rest > 62 {
            spans.push(Span::styled(
                clip(&self.owners(), rest - 61),
                self.styles.dim(),
            ));
        }
        Line::from(spans).render(area, buffer);
    }

    fn graphs(&self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.width);
        self.title(room).render(Rect { height: 1, ..area }, buffer);
        let rows = area.height - 1;
        let panels: &[(Measure, u16)] = match area.width {
            100.. => &[
                (Measure::Util, 35),
                (Measure::Memory, 25),
                (Measure::Power, 22),
                (Measure::Heat, 18),
            ],
            64.. => &[
                (Measure::Util, 30),
                (Measure::Memory, 29),
                (Measure::Power, 24),
                (Measure::Heat, 17),
            ],
            36.. => &[(Measure::Util, 50), (Measure::Memory, 50)],
            _ => &[(Measure::Util, 100)],
        };
        let mut x = area.x + 2;
        let wide = area.width.saturating_sub(2);
        for (measure, share) in panels {
            let part = wide * share / 100;
            let place = Rect {
                x,
                y: area.y + 1,
                width: part.saturating_sub(1),
                height: rows,
            };
            self.panel(*measure, place.intersection(*buffer.area()), buffer);
            x += part;
        }
    }

    fn panel(&self, measure: Measure, area: Rect, buffer: &mut Buffer) {
        let (name, value, room) = match measure {
            Measure::Util => ("util", right(&percent(self.gpu), 4), 9),
            Measure::Memory => ("mem", self.memory(), 15),
            Measure::Power => ("pow", self.power(), 12),
            Measure::Heat => ("", right(&self.heat(), 5), 5),
        };
        let style = match measure {
            Measure::Util => self.badge().1,
            _ => self.measure_style(measure),
        };
        let label = if name.is_empty() {
            value
        } else {
            format!("{name} {value}")
        };
        let text = left(&label, room.min(area.width.into()));
        let rows = usize::from(area.height);
        Line::styled(text, style).render(Rect { height: 1, ..area }, buffer);
        let graph = usize::from(area.width).saturating_sub(room + 1);
        if graph == 0 {
            return;
        }
        let x = area.x + count(room) + 1;
        let values = self.history(measure, graph);
        let now = value_of(self.gpu, measure, None);
        // How full it is can be seen better along than up; and on paper there is no time.
        let is_bar = match measure {
            Measure::Memory => rows == 1,
            Measure::Util => self.app.medium == Medium::Paper,
            Measure::Power | Measure::Heat => false,
        };
        let lines = match now {
            Some(now) if is_bar => vec![bar(now, graph)],
            _ => spark(&values, rows),
        };
        for (y, line) in (area.y..).zip(lines) {
            let place = Rect {
                x,
                y,
                width: count(graph),
                height: 1,
            };
            Line::styled(line, style).render(place.intersection(*buffer.area()), buffer);
        }
    }

    fn title<'b>(&self, room: usize) -> Line<'b> {
        let (word, style) = self.badge();
        let number = label(self.gpu);
        let mut spans = vec![
            Span::styled(left(&number, number.len().max(2)), self.styles.bold()),
            Span::styled(format!(" {word} "), style.patch(self.styles.selected())),
        ];
        let since = match self.age() {
            age if age.is_empty() => String::new(),
            age => format!(" for {}", age.replace('≥', "at least ")),
        };
        let about = match (&self.gpu.place, self.verdict.unobserved()) {
            (
                Place::Parent {
                    instances: instances @ 1..,
                },
                _,
            ) => {
                format!(" in {instances} instances")
            }
            (_, Some(Missing::Gone)) => format!(" the card is lost{since}"),
            (_, Some(why)) => format!(" {why}{since}"),
            (_, None) => since,
        };
        spans.push(Span::styled(about, style));
        let owners = self.owners();
        if !owners.is_empty() {
            spans.push(Span::raw(clip(&format!(" · {owners}"), room)));
        }
        let used: usize = spans.iter().map(|span| width(&span.content)).sum();
        let rest = room.saturating_sub(used + 3);
        if rest > 8 {
            let name = lost::name(self.gpu).unwrap_or("its name is not known");
            spans.push(Span::styled(
                format!(" · {}", clip(&self.details(name, rest), rest)),
                self.styles.dim(),
            ));
        }
        Line::from(spans)
    }

    /// The card's name, and what else there is room for.
    fn details(&self, name: &str, room: usize) -> String {
        let throttle = self
            .gpu
            .throttle
            .ok()
            .map(|reasons| reasons.names())
            .unwrap_or_default();
        // That an idle card clocks down is no news.
        let throttle: Vec<String> = throttle
            .into_iter()
            .filter(|reason| reason != "gpu-idle")
            .collect();
        let parts = [
            Some(name.to_owned()),
            (!throttle.is_empty()).then(|| format!("throttled: {}", throttle.join(", "))),
            self.gpu.fan.ok().map(|fan| format!("fan {}%", fan.0)),
            self.gpu
                .sm_clock
                .ok()
                .map(|clock| format!("{} MHz", clock.0)),
            self.gpu
                .performance_state
                .ok()
                .map(|state| format!("P{}", state.0)),
        ];
        let mut text = String::new();
        for part in parts.into_iter().flatten() {
            let next = if text.is_empty() {
                part
            } else {
                format!("{text}  {part}")
            };
            if width(&next) > room && !text.is_empty() {
                break;
            }
            text = next;
        }
        text
    }

    /// The word of the badge and its style. A card that is cut up has no state: its instances do.
    fn badge(&self) -> (&'static str, Style) {
        match self.gpu.place.counts() {
            true => (
                self.verdict.state.word(),
                self.styles.state(self.verdict.state),
            ),
            false => ("MIG", self.styles.heading()),
        }
    }

    fn name(&self) -> String {
        let name = lost::name(self.gpu).unwrap_or(MISSING);
        let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
        match &self.gpu.place {
            // The profile says more than the card that it is a part of.
            Place::Instance { .. } => name
                .find("MIG ")
                .map_or(name, |place| &name[place..])
                .to_owned(),
            Place::Parent { instances } => format!("{name} ({instances} MIG)"),
            Place::Whole => name.to_owned(),
        }
    }

    /// How long it has been in its state; `≥` where the beginning was not seen.
    fn age(&self) -> String {
        let Some(since) = self.since.filter(|_| self.gpu.place.counts()) else {
            return String::new();
        };
        let passed = self.now.duration_since(since.at).unsigned_abs();
        if passed.is_zero() && since.start == Start::AtLatest {
            // That it began at some time is no news.
            return String::new();
        }
        let passed = short_age(passed);
        if since.start == Start::Seen {
            passed
        } else {
            format!("≥{passed}")
        }
    }

    /// Who holds it, the largest first.
    fn owners(&self) -> String {
        let mut held: Vec<(String, u64)> = Vec::new();
        for process in holders(self.gpu, &self.app.setup.thresholds) {
            let owner = process
                .identity
                .as_ref()
                .ok()
                .and_then(gua_model::Identity::owner);
            let name = match &process.identity {
                Err(Missing::Gone) => "gone".to_owned(),
                _ => user_name(owner.as_ref().map(|owner| &owner.user)),
            };
            let size = process.memory.map_or(0, |memory| memory.0);
            match held.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = sum.saturating_add(size),
                None => held.push((name, size)),
            }
        }
        held.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let names: Vec<String> = held.into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    }

    fn memory(&self) -> String {
        match (&self.gpu.memory_used, &self.gpu.memory_total) {
            (Ok(used), Ok(total)) => {
                let (used, total) = (bytes(*used), bytes(*total));
                // One unit is enough where both have the same.
                let short = match (used.chars().last(), total.chars().last()) {
                    (one, other) if one == other => used.trim_end_matches(char::is_alphabetic),
                    _ => used.as_str(),
                };
                format!("{short}/{total}")
            }
            (used, _) => reading(used, |used| bytes(*used)),
        }
    }

    /// The power alone, where there is no room for its limit.
    fn watts(&self) -> String {
        reading(&self.gpu.power, |power| format!("{}W", power.whole_watts()))
    }

    fn power(&self) -> String {
        match (&self.gpu.power, &self.gpu.power_limit) {
            (Ok(power), Ok(limit)) => format!("{}/{}W", power.whole_watts(), limit.whole_watts()),
            (power, _) => reading(power, |power| format!("{}W", power.whole_watts())),
        }
    }

    fn heat(&self) -> String {
        reading(&self.gpu.temperature, |heat| format!("{}°C", heat.0))
    }

    fn measure_style(&self, measure: Measure) -> Style {
        let share = value_of(self.gpu, measure, None);
        share.map_or(self.styles.dim(), |share| self.styles.load(share))
    }

    fn line_of(&self, measure: Measure, room: usize) -> String {
        spark(&self.history(measure, room), 1)
            .pop()
            .unwrap_or_default()
    }

    /// The card's values over time, each as a share; holes where it was not seen.
    fn history(&self, measure: Measure, room: usize) -> Vec<Option<f64>> {
        let columns = self.app.timeline.columns(self.index, room);
        let seen = columns.iter().map(|column| {
            let sample = &self.app.timeline.get((*column)?)?.sample;
            sample.gpus.iter().find(|gpu| gpu.uuid == self.gpu.uuid)
        });
        let seen: Vec<Option<&Gpu>> = seen.collect();
        // Without a limit the most that was drawn is the measure.
        let most = seen
            .iter()
            .flatten()
            .filter_map(|gpu| gpu.power.ok())
            .map(|power| power.0)
            .max();
        seen.into_iter()
            .map(|gpu| gpu.and_then(|gpu| value_of(gpu, measure, most)))
            .collect()
    }
}

fn value_of(gpu: &Gpu, measure: Measure, most_power: Option<u64>) -> Option<f64> {
    match measure {
        Measure::Util => gpu.util.ok().map(|util| f64::from(util.get()) / 100.0),
        Measure::Memory => Some(share(gpu.memory_used.ok()?.0, gpu.memory_total.ok()?.0)),
        Measure::Power => {
            let limit = gpu.power_limit.ok().map(|limit| limit.0).or(most_power)?;
            Some(share(gpu.power.ok()?.0, limit))
        }
        Measure::Heat => gpu
            .temperature
            .ok()
            .map(|heat| (f64::from(heat.0) - COOL) / (HOT - COOL)),
    }
}

fn percent(gpu: &Gpu) -> String {
    match gpu.util {
        Ok(util) => format!("{}%", util.get()),
        Err(_) => MISSING.to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a picture of a few columns")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
