//! The screen: one line about the host, the GPUs, the table, one line of keys. It fits any size.

mod gpus;
mod overlay;
mod style;
mod table;
#[cfg(test)]
mod tests;

use gua_model::text::short_age;
use gua_model::{Sample, faults};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use crate::app::{App, Driver, Overlay, Rights, View};
use crate::format::{bytes, clip, share, width};
use crate::spark::bar;
use crate::timeline::{Moment, Source};
use style::Styles;

/// Minimum height of the screen, without its first line, at which the line about the host is shown.
const HOST_ROOM: u16 = 12;
/// Width of a bar in that line.
const HOST_BAR: usize = 10;

/// Draws text output: the host, two lines per GPU, every process, and no keys.
pub(crate) fn draw_text(app: &mut App, area: Rect, buffer: &mut Buffer, now: Timestamp) {
    let styles = Styles(app.setup.palette);
    let head = header(app, styles, now, area.width.into());
    let rest = put(Some(head), area, buffer);
    let rest = put(host_line(app, styles, rest.width.into()), rest, buffer);
    let height = gpus::text_height(app);
    body(app, height, rest, buffer, styles);
}

/// Draws everything as of `now`.
pub fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, now: Timestamp) {
    if area.is_empty() {
        return;
    }
    let styles = Styles(app.setup.palette);
    let room = usize::from(area.width);
    let rest = put(Some(header(app, styles, now, room)), area, buffer);
    let problem = driver_problem(app, now);
    let problem = problem.map(|text| Line::styled(clip(&text, room), styles.bad()));
    let rest = put(problem, rest, buffer);
    let host = host_line(app, styles, room).filter(|_| rest.height >= HOST_ROOM);
    let rest = put(host, rest, buffer);
    let foot = u16::from(rest.height > 2);
    let [upper, foot] = cut(rest, rest.height - foot);
    footer(app, styles, room).render(foot, buffer);
    let height = gpus::height(app, upper);
    body(app, height, upper, buffer, styles);
    match &app.overlay {
        Overlay::Help => overlay::help(area, buffer, styles),
        Overlay::Confirm(pending) => overlay::confirm(pending, area, buffer, styles),
        Overlay::None | Overlay::Filter => {}
    }
}

/// Draws the GPUs in this many lines, and the table below them.
fn body(app: &mut App, height: u16, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if let Some(index) = app.shown_index() {
        let [upper, lower] = cut(area, height);
        gpus::draw(app, index, upper, buffer, styles);
        table::draw(app, lower, buffer, styles);
    }
}

/// Draws a line, if there is one, at the top of an area, and returns the rest of the area.
fn put(line: Option<Line<'_>>, area: Rect, buffer: &mut Buffer) -> Rect {
    let [place, rest] = cut(area, u16::from(line.is_some()));
    if let Some(line) = line {
        line.render(place, buffer);
    }
    rest
}

/// Splits an area into its first lines and the rest.
fn cut(area: Rect, height: u16) -> [Rect; 2] {
    Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area)
}

fn header<'a>(app: &App, styles: Styles, now: Timestamp, room: usize) -> Line<'a> {
    let moment = app.shown();
    let at = match (app.frozen, moment) {
        (Some(_), Some(moment)) => moment.sample.at,
        _ => now,
    };
    let [clock, today] = [at, now].map(|at| at.to_zoned(app.setup.zone.clone()));
    let form = match clock.date() == today.date() {
        true => " %H:%M:%S %Z ",
        false => " %Y-%m-%d %H:%M:%S %Z ",
    };
    let mode_style = match app.frozen {
        None => styles.bold(),
        Some(_) => styles.bold().patch(styles.selected()),
    };
    let mut spans = vec![
        Span::styled("gua top", styles.bold()),
        Span::raw(clock.strftime(form).to_string()),
        Span::styled(mode(app, moment, now), mode_style),
        Span::raw("  "),
    ];
    if let Some(moment) = moment {
        let left = |spans: &[Span<'_>]| {
            let used: usize = spans.iter().map(|span| width(&span.content)).sum();
            room.saturating_sub(used)
        };
        let gpus = moment.sample.gpus.iter().filter(|gpu| gpu.place.counts());
        let unhealthy = gpus.filter(|gpu| !faults(gpu).is_empty()).count();
        if unhealthy > 0 {
            let text = clip(&format!("{unhealthy} unhealthy"), left(&spans));
            spans.push(Span::styled(text, styles.bad()));
            spans.push(Span::raw("  "));
        }
        for (word, count) in app.counts(&moment.sample) {
            if count > 0 {
                let text = clip(&format!("{count} {word}"), left(&spans));
                spans.push(Span::styled(text, styles.share(word)));
                spans.push(Span::raw("  "));
            }
        }
        let about = clip(&about(&app.setup.host, &moment.sample), left(&spans));
        spans.push(Span::styled(about, styles.dim()));
    }
    Line::from(spans)
}

fn about(host: &str, sample: &Sample) -> String {
    let driver = sample.driver.version.as_deref();
    let driver = driver.map(|version| format!(" · driver {version}"));
    let cuda = sample.driver.cuda;
    let cuda = cuda.map(|(major, minor)| format!(" · CUDA {major}.{minor}"));
    format!(
        "{host}{}{}",
        driver.unwrap_or_default(),
        cuda.unwrap_or_default()
    )
}

fn mode(app: &App, moment: Option<&Moment>, now: Timestamp) -> String {
    let Some(at) = app.frozen else {
        return "live".to_owned();
    };
    let behind = short_age(now.duration_since(at).unsigned_abs());
    match moment {
        Some(moment) if moment.source == Source::Recorded => {
            let every = short_age(moment.interval);
            format!("RECORDED, {behind} ago, every {every}")
        }
        _ => format!("PAUSED, {behind} ago"),
    }
}

/// Returns a line about the host: CPU, memory and load; `None` if nothing is known, or if a past
/// moment is shown, because these values are always current.
fn host_line<'a>(app: &App, styles: Styles, room: usize) -> Option<Line<'a>> {
    let load = Some(app.surroundings.host).filter(|_| app.frozen.is_none())?;
    let mut parts: Vec<(String, Option<f64>)> = Vec::new();
    if let Some(percent) = load.cpu_percent {
        let share = f64::from(percent) / 100.0;
        parts.push((format!("cpu {percent:>3}%"), Some(share)));
    }
    if let Some((used, total)) = load.memory {
        let text = format!("ram {}/{}", bytes(used), bytes(total));
        parts.push((text, share(used.0, total.0)));
    }
    if let Some(hundredths) = load.load {
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        parts.push((format!("load {whole}.{rest:02}"), None));
    }
    if parts.is_empty() {
        return None;
    }
    let mut spans = vec![Span::styled("host".to_owned(), styles.bold())];
    let mut used = 4;
    for (text, share) in parts {
        let graph = share.map_or_else(String::new, |share| format!(" {}", bar(share, HOST_BAR)));
        let wide = 2 + width(&text) + width(&graph);
        if used + wide > room {
            break;
        }
        used += wide;
        let style = share.map_or(Style::new(), |share| styles.load(share));
        spans.push(Span::styled(format!("  {text}{graph}"), style));
    }
    Some(Line::from(spans))
}

/// Returns what is wrong with the driver, if anything is.
fn driver_problem(app: &App, now: Timestamp) -> Option<String> {
    let clock = |at: Timestamp| {
        at.to_zoned(app.setup.zone.clone())
            .strftime("%H:%M:%S")
            .to_string()
    };
    let cadence = gua_model::Cadence::new(app.setup.interval);
    let (Driver::Opening(since) | Driver::Answered(since) | Driver::Faulty { since, .. }) =
        &app.driver;
    let silent = now.duration_since(*since);
    let (clock, age) = (clock(*since), short_age(silent.unsigned_abs()));
    match &app.driver {
        Driver::Opening(_) if app.timeline.last_index().is_none() => {
            Some(format!("waiting for the driver's first response for {age}"))
        }
        Driver::Opening(_) | Driver::Answered(_) => {
            let is_silent = silent.is_positive() && cadence.is_missed(silent.unsigned_abs());
            is_silent.then(|| format!("driver has not responded since {clock} ({age})"))
        }
        Driver::Faulty { fault, .. } => Some(format!(
            "driver has not responded since {clock} ({age}): {fault}"
        )),
    }
}

fn footer<'a>(app: &App, styles: Styles, room: usize) -> Line<'a> {
    if app.overlay == Overlay::Filter {
        let text = clip(&format!("filter: {}▏", app.filter), room);
        return Line::from(vec![Span::styled(text, styles.bold())]);
    }
    if let Some(notice) = &app.notice {
        let style = match notice.is_bad {
            true => styles.bad(),
            false => styles.bold(),
        };
        return Line::styled(clip(&notice.text, room), style);
    }
    let arrow = if app.descending { "↓" } else { "↑" };
    let filter = match app.filter.as_str() {
        "" => "/ filter".to_owned(),
        text => format!("/ filter:{text}"),
    };
    let view = match app.view {
        View::Processes => "Tab processes",
        View::Tree => "Tab tree",
        View::Users => "Tab users",
    };
    let keys = [
        Some("q quit"),
        Some("? help"),
        app.frozen.map(|_| "n now"),
        Some(&format!("s sort:{}{arrow}", app.column)),
        Some(&filter),
        Some(view),
        Some("←→ time"),
        Some("space pause"),
        matches!(app.setup.rights, Rights::Own(_) | Rights::Admin(_)).then_some("x signal"),
    ];
    let mut text = String::new();
    for key in keys.into_iter().flatten() {
        let key = format!("{key}  ");
        if width(&text) + width(&key) > room + 2 {
            break;
        }
        text.push_str(&key);
    }
    Line::styled(clip(text.trim_end(), room), styles.dim())
}
