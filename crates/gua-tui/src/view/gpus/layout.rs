//! One GPU as a line, or as a title with graphs below it. Graphs show quantities as shares, now and over time.

use gua_model::text::counted;
use gua_model::{Gpu, Missing, Place};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::{GpuView, count, faults_of, percent, throttle_mark};
use crate::app::Medium;
use crate::format::{clip, left, right, share, width};
use crate::lost;
use crate::spark::{bar, spark};

impl GpuView<'_> {
    pub(super) fn one_line(&self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.width);
        let numbered = |gpu: &Gpu| match gpu.place.parent() {
            Some(_) => format!("└{}", gpu.place.label(gpu.index)),
            None => gpu.place.label(gpu.index),
        };
        let gpus = self.app.shown().map(|moment| &moment.sample.gpus);
        let gpus = || gpus.into_iter().flatten();
        let has_instances = gpus().any(|gpu| gpu.place.parent().is_some());
        let longest = gpus().map(|gpu| width(&numbered(gpu))).max().unwrap_or(0);
        let number = left(
            &numbered(self.gpu),
            longest.max(if has_instances { 5 } else { 3 }),
        );
        let (word, style) = self.badge();
        let marked = gpus().any(|gpu| !throttle_mark(gpu).is_empty());
        let mark = left(throttle_mark(self.gpu), usize::from(marked));
        let util = format!("{}{mark}", right(&percent(self.gpu), 4));
        // On a narrow line the state is clipped in favour of the utilisation.
        let beside = width(&number) + width(&util) + 2;
        let state = left(word, room.saturating_sub(beside).clamp(7, 12));
        // The model matters less than the owner and the curve; a host rarely has several.
        let name = left(&self.name(), if room < 100 { 0 } else { 18 });
        let styled = |measure| self.measure_style(measure);
        let owners = left(&self.owners(), if room < 100 { 10 } else { 16 });
        // All lines leave the same space for faults, so that their curves are in line.
        let most = gpus().map(|gpu| width(&faults_of(gpu))).max();
        let faults = left(&faults_of(self.gpu), most.unwrap_or(0).min(12));
        let fault_style = match faults.trim().is_empty() {
            true => Style::new(),
            false => self.styles.bad(),
        };
        let heat = right(&self.temperature(), 5);
        let parts: [(u8, String, Style); 10] = [
            (0, number, self.styles.bold()),
            (9, name, Style::new()),
            (1, state, style),
            (5, left(&self.age(), 7), self.styles.dim()),
            (2, util, style),
            (4, right(&self.memory(), 11), styled(Measure::Memory)),
            (7, right(&self.watts(), 5), styled(Measure::Power)),
            (8, heat, styled(Measure::Temperature)),
            (3, owners, Style::new()),
            (6, faults, fault_style),
        ];
        let mut used = 0;
        let mut keep = [false; 10];
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|place| parts[*place].0);
        for place in order {
            let wide = width(&parts[place].1) + 1;
            if wide > 1 && used + wide <= room + 1 {
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
            // The history follows the age, if there is enough space.
            if place == 3 && rest >= 8 {
                let history = self.history(Measure::Util, rest.min(60) - 1);
                let style = self.styles.state(self.verdict.state);
                spans.push(Span::styled(spark(&history, 1).concat(), style));
                spans.push(Span::raw(" "));
            }
        }
        Line::from(spans).render(area, buffer);
    }

    pub(super) fn graphs(&self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.width);
        self.title(room).render(Rect { height: 1, ..area }, buffer);
        let rows = area.height - 1;
        use Measure::{Memory, Power, Temperature, Util};
        let panels: &[(Measure, u16)] = match area.width {
            100.. => &[(Util, 35), (Memory, 25), (Power, 22), (Temperature, 18)],
            64.. => &[(Util, 30), (Memory, 29), (Power, 24), (Temperature, 17)],
            36.. => &[(Util, 50), (Memory, 50)],
            _ => &[(Util, 100)],
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
        let (label, room) = match measure {
            Measure::Util => (format!("util {}", right(&percent(self.gpu), 4)), 9),
            Measure::Memory => (format!("mem {}", self.memory()), 15),
            Measure::Power => (format!("pow {}", self.power()), 12),
            Measure::Temperature => (right(&self.temperature(), 5), 5),
        };
        let style = match measure {
            Measure::Util => self.badge().1,
            _ => self.measure_style(measure),
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
        // A fill level is easier to read horizontally; and text output has no history.
        let is_bar = match measure {
            Measure::Memory => rows == 1,
            Measure::Util => self.app.medium == Medium::Text,
            Measure::Power | Measure::Temperature => false,
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
        let number = self.gpu.place.label(self.gpu.index);
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
                    instances: count @ 1..,
                },
                _,
            ) => {
                format!(" in {}", counted((*count).into(), "instance"))
            }
            (_, Some(Missing::Gone)) => format!(" GPU lost{since}"),
            (_, Some(why)) => format!(" {why}{since}"),
            (_, None) => since,
        };
        spans.push(Span::styled(about, style));
        let faults = faults_of(self.gpu);
        // A lost GPU already says so.
        if !faults.is_empty() && self.verdict.unobserved() != Some(Missing::Gone) {
            spans.push(Span::raw(" "));
            spans.push(Span::styled(format!(" {faults} "), self.styles.bad()));
        }
        let owners = self.owners();
        if !owners.is_empty() {
            spans.push(Span::raw(clip(&format!(" · {owners}"), room)));
        }
        let used: usize = spans.iter().map(|span| width(&span.content)).sum();
        let rest = room.saturating_sub(used + 3);
        if rest > 8 {
            let name = lost::name(self.gpu).unwrap_or("unknown name");
            let details = format!(" · {}", clip(&self.details(name, rest), rest));
            spans.push(Span::styled(details, self.styles.dim()));
        }
        Line::from(spans)
    }
}

/// A quantity that is drawn over time.
#[derive(Clone, Copy)]
enum Measure {
    Util,
    Memory,
    Power,
    Temperature,
}

/// Range of the temperature graph, in degrees.
const COOLEST: f64 = 20.0;
const HOTTEST: f64 = 100.0;

impl GpuView<'_> {
    fn measure_style(&self, measure: Measure) -> Style {
        let share = value_of(self.gpu, measure, None);
        share.map_or(self.styles.dim(), |share| self.styles.load(share))
    }

    /// Returns the values over time as shares, with gaps where the GPU was not read.
    fn history(&self, measure: Measure, room: usize) -> Vec<Option<f64>> {
        let columns = self.app.timeline.columns(self.index, room);
        let seen = columns.iter().map(|column| {
            let sample = &self.app.timeline.get((*column)?)?.sample;
            sample.gpus.iter().find(|gpu| gpu.uuid == self.gpu.uuid)
        });
        let seen: Vec<Option<&Gpu>> = seen.collect();
        // Without a limit the scale is the highest power so far.
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
        Measure::Memory => share(gpu.memory_used.ok()?.0, gpu.memory_total.ok()?.0),
        Measure::Power => {
            let limit = gpu.power_limit.ok().map(|limit| limit.0).or(most_power)?;
            share(gpu.power.ok()?.0, limit)
        }
        Measure::Temperature => gpu
            .temperature
            .ok()
            .map(|heat| (f64::from(heat.0) - COOLEST) / (HOTTEST - COOLEST)),
    }
}
