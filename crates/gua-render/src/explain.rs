//! `gua explain` as text: the state first, then the reason, then all observations.

pub mod words;

use std::time::Duration;

use anstyle::Style;
use gua_model::classify::holders;
use gua_model::since::{Since, Start};
use gua_model::text::{counted, gigabytes, sanitize, short_age};
use gua_model::window::EDGES;
use gua_model::{
    Basis, GpuUuid, Histogram, Micros, Process, ProcessKind, Reading, Session, State, UtilWindow,
};
use gua_query::explain::{Answer, Found, GapFound, ImportedRow, QuarterFound, Seen, When};
use gua_query::gpu::NamedGpu;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Width of the names before the values.
const LABEL: usize = 16;

/// Returns the page with bold headings; the output removes them where colors are disabled.
#[must_use]
pub fn text(answer: &Answer, zone: &TimeZone) -> String {
    let mut page = Page {
        out: String::new(),
        zone,
    };
    page.heading(&title(&answer.gpu));
    match &answer.found {
        Found::Seen(seen) => page.seen(answer.at, seen),
        Found::Gap(gap) => {
            page.moment(answer.at, "no tick covers this time");
            page.blank();
            page.state(State::Unobserved);
            page.gap(gap);
        }
        Found::Quarter(quarter) => page.quarter(answer.at, quarter),
        Found::ImportedRow(row) => page.imported_row(answer.at, row),
        Found::Before { first } => {
            page.moment(answer.at, "before the first sample of this GPU");
            page.blank();
            page.line(&match first {
                Some(first) => format!("The GPU was first seen at {}.", page.time(*first)),
                None => "This history has no sample of the GPU by gua.".to_owned(),
            });
            page.line(
                "Such time is outside of every report: it counts neither as idle nor as a gap.",
            );
        }
        Found::InstanceAbsent => {
            page.moment(answer.at, "this MIG instance did not exist");
            page.blank();
            page.line("Its GPU was sampled without it. Such time is not capacity: it counts neither as idle nor as a gap.");
        }
        Found::NoImportedRow { last } => {
            page.moment(answer.at, "no row of this file covers this time");
            page.blank();
            if let Some(last) = last {
                page.line(&format!(
                    "The last row of the day before is of {}.",
                    page.time(*last)
                ));
            }
            page.line(
                "gpu-usage-audit records no reason for such time, and its report does not count it.",
            );
        }
    }
    page.out
}

fn title(gpu: &NamedGpu) -> String {
    let number = match (gpu.index, &gpu.parent) {
        (Some(index), None) => format!("GPU {index}"),
        (Some(index), Some(_)) => format!("MIG instance of GPU {index}"),
        (None, _) => "GPU".to_owned(),
    };
    let name = gpu.name.as_ref().map(|name| sanitize(name));
    let uuid = gpu.uuid.as_ref().map(GpuUuid::to_string);
    [Some(number), name, uuid]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("  ")
}

struct Page<'a> {
    out: String,
    zone: &'a TimeZone,
}

impl Page<'_> {
    fn heading(&mut self, text: &str) {
        let bold = Style::new().bold();
        self.out.push_str(&format!("{bold}{text}{bold:#}\n"));
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn fact(&mut self, label: &str, text: &str) {
        self.line(&format!("  {label:<LABEL$}{text}"));
    }

    fn more(&mut self, text: &str) {
        self.fact("", text);
    }

    fn time(&self, at: Timestamp) -> String {
        let zoned = at.to_zoned(self.zone.clone());
        match at.subsec_nanosecond() {
            0 => zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
            _ => zoned.strftime("%Y-%m-%d %H:%M:%S.%3f %Z").to_string(),
        }
    }

    fn moment(&mut self, at: Timestamp, what: &str) {
        self.line(&format!("{}, {what}", self.time(at)));
    }

    fn state(&mut self, state: State) {
        self.heading(&words::named(state));
    }

    fn seen(&mut self, at: Timestamp, seen: &Seen) {
        match &seen.when {
            When::Now => self.moment(at, "now"),
            When::Tick {
                period,
                interval,
                ended_by_next,
                ..
            } => {
                self.moment(at, "as the history has it");
                let until = match ended_by_next {
                    true => "until the next tick",
                    false => "for its interval",
                };
                self.line(&format!(
                    "The tick of {} covers this time, {until}: {} of {}.",
                    self.time(seen.at),
                    seconds(period.micros()),
                    seconds_of(*interval),
                ));
            }
        }
        self.blank();
        if !seen.gpu.place.counts() {
            self.heading("no state of its own: its MIG instances are counted in its place");
            for instance in &seen.instances {
                self.line(&format!("  gua explain {instance}"));
            }
        } else {
            self.verdicts(seen);
        }
        if let Some(gap) = &seen.gap {
            self.gap(gap);
        }
        self.blank();
        self.evidence(seen);
    }

    fn verdicts(&mut self, seen: &Seen) {
        let all: u64 = seen.shares.iter().map(|share| share.weight).sum();
        let buffered = matches!(
            seen.when,
            When::Tick {
                basis: Basis::Buffer,
                ..
            }
        );
        for share in &seen.shares {
            let verdict = &share.verdict;
            if seen.shares.len() > 1 {
                let part = percent(share.weight, all);
                let state = words::named(verdict.state);
                self.heading(&format!("{part} of it {state}"));
            } else {
                self.state(verdict.state);
            }
            if let Some(since) = seen.since {
                let text = self.since(since, seen.at);
                self.line(&format!("  {text}"));
            }
            let samples = buffered.then_some((share.weight, all));
            for reason in words::reasons(verdict, samples) {
                self.line(&format!("  {reason}"));
            }
            self.line(&format!("  Rule: {}.", words::rule(verdict.state)));
        }
        if let When::Tick {
            basis: Basis::Instant,
            ..
        } = seen.when
        {
            self.line("  One reading covers the whole time: the driver's buffer does not.");
        }
    }

    fn since(&self, since: Since, now: Timestamp) -> String {
        let age = now.duration_since(since.at).unsigned_abs();
        let bound = match since.start {
            Start::Seen => "",
            Start::AtLatest => " at least: there is no earlier sample",
        };
        format!("Since {} ({}){bound}.", self.time(since.at), short_age(age))
    }

    fn evidence(&mut self, seen: &Seen) {
        let gpu = &seen.gpu;
        self.heading("Observations");
        let util = reading(&gpu.util, |util| {
            format!("{} % in the driver's last sample", util.get())
        });
        self.fact("utilisation", &util);
        match &seen.when {
            When::Now => match &gpu.window {
                Ok(window) => self.window(window, seen),
                Err(why) => self.fact(
                    "driver's buffer",
                    &format!("none: {}", words::missing(*why)),
                ),
            },
            When::Tick {
                window: Some(window),
                ..
            } => self.window(window, seen),
            When::Tick { window: None, .. } => {
                self.fact("driver's buffer", "not used: it does not cover this time");
            }
        }
        let total = gpu.memory_total.map_or("?".to_owned(), gigabytes);
        self.fact(
            "memory",
            &reading(&gpu.memory_used, |used| {
                format!("{} of {total} GB used", gigabytes(*used))
            }),
        );
        self.fact("power", &self.power(seen));
        let thresholds = &seen.thresholds;
        self.fact(
            "thresholds",
            &format!(
                "active from {} % on; held with more than {} MB; {}",
                thresholds.active_util.get(),
                thresholds.held_mb,
                match thresholds.count_graphics {
                    gua_model::CountGraphics::Yes => "graphics-only processes count as holders",
                    gua_model::CountGraphics::No => "graphics-only processes do not hold a GPU",
                }
            ),
        );
        self.processes(seen);
        match seen.problems.as_slice() {
            [] => self.fact("driver's errors", "none"),
            [first, rest @ ..] => {
                self.fact("driver's errors", &sanitize(&first.to_string()));
                for problem in rest {
                    self.more(&sanitize(&problem.to_string()));
                }
            }
        }
    }

    fn power(&self, seen: &Seen) -> String {
        let power = reading(&seen.gpu.power, |power| {
            format!("{} W", power.whole_watts())
        });
        let floor = seen
            .shares
            .first()
            .and_then(|share| share.verdict.evidence.idle_floor);
        match floor {
            Some(floor) => format!(
                "{power}; idle floor {} W, from the seven days before",
                floor.whole_watts()
            ),
            None => format!("{power}; the idle floor is unknown, so `stalled` cannot be detected"),
        }
    }

    fn window(&mut self, window: &UtilWindow, seen: &Seen) {
        let threshold = seen.thresholds.active_util;
        let Some(mean) = window.mean() else {
            self.fact("driver's buffer", "no samples");
            return;
        };
        let over = window.histogram.at_or_over(threshold);
        let over = over.map_or(String::new(), |over| {
            format!(", {over} at or over {} %", threshold.get())
        });
        let most = window.max.map_or(0, gua_model::Percent::get);
        self.fact(
            "driver's buffer",
            &format!(
                "{} over {:.1} s{over}; mean {mean:.1} %, highest {most} %",
                counted(window.samples(), "sample"),
                window.covered.as_secs_f64(),
            ),
        );
        self.more(&histogram(&window.histogram));
        if window.junk > 0 {
            let junk = u64::from(window.junk);
            let were = if junk == 1 { "was" } else { "were" };
            let junk = counted(junk, "sample");
            self.more(&format!("{junk} over 100 % {were} left out"));
        }
    }

    fn processes(&mut self, seen: &Seen) {
        let gpu = &seen.gpu;
        if let Err(why) = gpu.compute_list {
            self.fact(
                "holders",
                &format!("the list could not be read: {}", words::missing(why)),
            );
        }
        let holding: Vec<&Process> = holders(gpu, &seen.thresholds).collect();
        match holding.as_slice() {
            [] if gpu.compute_list.is_ok() => self.fact("holders", "none"),
            [] => {}
            some => {
                self.fact("holders", &format!("{}", some.len()));
                for process in some {
                    self.process(process, seen);
                }
            }
        }
        let others = gpu.processes.iter();
        let others: Vec<&Process> = others.filter(|it| !holding.contains(it)).collect();
        match others.len() {
            0 => {}
            1 => self.fact("not holders", "graphics only"),
            _ => self.fact("not holders", "graphics only"),
        }
        for process in others {
            self.process(process, seen);
        }
    }

    fn process(&mut self, process: &Process, seen: &Seen) {
        let name = process
            .identity
            .as_ref()
            .ok()
            .and_then(|identity| identity.comm.as_ref().ok());
        let name = name.map_or(String::new(), |name| format!(" {}", sanitize(name)));
        let memory = match process.memory {
            Ok(bytes) => format!("{} MB", bytes.whole_mb()),
            Err(why) => format!("memory unknown ({})", words::missing(why)),
        };
        let kind = match process.kind {
            ProcessKind::Compute => "computes",
            ProcessKind::Graphics => "draws",
            ProcessKind::Both => "compute and graphics",
        };
        self.more(&format!("pid {}{name}, {memory}, {kind}", process.pid.0));
        self.more(&format!("  {}", words::owner(process)));
        if let Some(session) = session(process, &seen.sessions) {
            let age = seen.at.duration_since(session.from).unsigned_abs();
            let text = format!(
                "  on the GPU since {} ({})",
                self.time(session.from),
                short_age(age)
            );
            self.more(&text);
        }
    }

    fn gap(&mut self, gap: &GapFound) {
        self.line(&format!("  {}", words::gap(gap.reason)));
        let from = match gap.from_is_bound {
            true => format!("from {} or before", self.time(gap.period.from())),
            false => format!("from {}", self.time(gap.period.from())),
        };
        let to = match (gap.goes_on, gap.to_is_bound) {
            (true, _) => "until now".to_owned(),
            (false, true) => format!("to {} or later", self.time(gap.period.to())),
            (false, false) => format!("to {}", self.time(gap.period.to())),
        };
        self.line(&format!(
            "  It lasted {from} {to}: {}.",
            seconds(gap.period.micros())
        ));
        for outage in &gap.outages {
            self.line(&format!(
                "  The collector recorded: {} ({} lost)",
                sanitize(&outage.detail),
                counted(outage.ticks_lost.into(), "tick")
            ));
        }
        self.line(&format!(
            "  Rule: {} ({}).",
            words::rule(State::Unobserved),
            gap.reason
        ));
    }

    fn quarter(&mut self, at: Timestamp, quarter: &QuarterFound) {
        self.moment(at, "only the total of its quarter hour is known");
        self.line(&format!(
            "Ticks are kept from {} on (history.keep_raw); older time is kept as totals.",
            self.time(quarter.raw_from)
        ));
        self.blank();
        self.heading(&format!(
            "From {} to {}",
            self.time(quarter.period.from()),
            self.time(quarter.period.to())
        ));
        for ((state, basis), sum) in &quarter.total.states {
            let basis = match basis {
                Basis::Buffer => "from the driver's buffer",
                Basis::Instant => "from single readings",
                Basis::Imported => "from imported rows",
            };
            self.fact(
                state.as_str(),
                &match words::counts_as(*state) {
                    Some(counts_as) => format!("{}, {basis}; {counts_as}", seconds(sum.micros)),
                    None => format!("{}, {basis}", seconds(sum.micros)),
                },
            );
        }
        for (reason, micros) in &quarter.total.unobserved {
            self.fact(
                "not observed",
                &format!("{}: {}", seconds(*micros), words::gap(*reason)),
            );
        }
        for (name, (_, owner)) in quarter.owners.iter().zip(&quarter.total.owners) {
            let name = name
                .as_ref()
                .map_or("unknown".to_owned(), |name| sanitize(name));
            self.fact("holder", &format!("{name}, {}", seconds(owner.held)));
        }
        self.fact("ticks", &quarter.total.card.ticks.to_string());
    }

    fn imported_row(&mut self, at: Timestamp, row: &ImportedRow) {
        let class = row.class;
        self.moment(at, "a row of gpu-usage-audit");
        self.line(&format!(
            "The row of {} covers this time: {}, its run's interval.",
            self.time(row.at),
            seconds_of(row.interval)
        ));
        self.blank();
        self.heading(&format!(
            "{}: as counted by the tool that wrote it",
            class.as_str()
        ));
        let memory: u64 = row.processes.iter().filter_map(|(_, mb)| *mb).sum();
        let side = if row.util >= 10 {
            "at or over"
        } else {
            "below"
        };
        self.line(&format!(
            "  The utilisation was {} %, {side} 10 %.",
            row.util
        ));
        if row.util < 10 {
            let side = if memory > 100 { "more" } else { "not more" };
            self.line(&format!(
                "  Its processes had {memory} MB together, {side} than 100 MB."
            ));
        }
        self.line("  Rule: every process of a row counts, graphics too, and unknown memory counts as zero.");
        for (name, mb) in &row.processes {
            let name = name
                .as_ref()
                .map_or("unknown".to_owned(), |name| sanitize(name));
            let memory = mb.map_or("memory unknown".to_owned(), |mb| format!("{mb} MB"));
            self.fact("process", &format!("{name}, {memory}"));
        }
    }
}

fn reading<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    match reading {
        Ok(value) => show(value),
        Err(why) => format!("not known: {}", words::missing(*why)),
    }
}

/// Ranges with samples in them: `0 %: 90, 1-4 %: 3, 90-100 %: 27`.
fn histogram(histogram: &Histogram) -> String {
    let ends = EDGES.iter().skip(1).map(|edge| edge - 1).chain([100]);
    let bars = EDGES.iter().zip(ends).zip(histogram.bins);
    let shown = bars
        .filter(|(_, samples)| *samples > 0)
        .map(|((from, to), samples)| {
            if *from == to {
                format!("{from} %: {samples}")
            } else {
                format!("{from}-{to} %: {samples}")
            }
        });
    format!("by utilisation: {}", shown.collect::<Vec<_>>().join(", "))
}

fn session<'a>(process: &Process, sessions: &'a [Session]) -> Option<&'a Session> {
    let key = process.identity.as_ref().ok()?.key;
    sessions.iter().rfind(|session| session.key.process == key)
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = (part.saturating_mul(1000) + whole / 2)
        .checked_div(whole)
        .unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn seconds(micros: Micros) -> String {
    seconds_of(Duration::from_micros(micros.0))
}

fn seconds_of(duration: Duration) -> String {
    match duration.as_secs() {
        0..600 => {
            let text = format!("{:.3}", duration.as_secs_f64());
            format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
        }
        seconds => {
            let (days, rest) = (seconds / 86_400, seconds % 86_400);
            let clock = format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
            if days > 0 {
                format!("{} and {clock}", counted(days, "day"))
            } else {
                clock
            }
        }
    }
}
