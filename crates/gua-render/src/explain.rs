//! `gua explain` as text: the state first, then the reason, then all observations.

pub mod json;
pub mod words;

use std::time::Duration;

use anstyle::Style;
use gua_model::classify::holders;
use gua_model::health::{faults, is_known};
use gua_model::since::{Since, Start};
use gua_model::text::{counted, gigabytes, sanitize, short_age};
use gua_model::window::EDGES;
use gua_model::{
    Basis, Bytes, CountGraphics, GpuUuid, Histogram, Micros, Missing, Percent, Process,
    ProcessKind, Reading, State, UtilWindow,
};
use gua_query::explain::{Answer, Found, GapFound, ImportedRow, QuarterFound, Seen, When};
use gua_query::gpu::NamedGpu;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::document::local;
use crate::listing::row::Kept;

/// Width of the names before the values.
const LABEL: usize = 16;

/// Returns the page with bold headings; the output removes them where colors are disabled.
pub fn text(answer: &Answer, keeps: &[Kept], zone: &TimeZone) -> String {
    let mut page = Page {
        out: String::new(),
        zone,
    };
    page.heading(title(&answer.gpu));
    match &answer.found {
        Found::Seen(seen) => page.seen(answer.at, seen),
        Found::Gap(gap) => {
            page.moment(answer.at, "no tick covers this time");
            page.line("");
            page.heading(words::named(State::Unobserved));
            page.gap(gap);
        }
        Found::Quarter(quarter) => page.quarter(answer.at, quarter),
        Found::ImportedRow(row) => page.imported_row(answer.at, row),
        Found::Before { first } => {
            let first = match first {
                Some(first) => format!("The GPU was first seen at {}.", page.time(*first)),
                None => "This history has no sample of the GPU by gua.".to_owned(),
            };
            let rule =
                "Such time is outside of every report: it counts neither as idle nor as a gap.";
            page.nothing(
                answer.at,
                "before the first sample of this GPU",
                &[&first, rule],
            );
        }
        Found::InstanceAbsent => {
            let rule = "Its GPU was sampled without it. Such time is not capacity: it counts neither as idle nor as a gap.";
            page.nothing(answer.at, "this MIG instance did not exist", &[rule]);
        }
        Found::NoImportedRow { last } => {
            let last = last.map(|last| page.time(last));
            let last = last.map(|last| format!("The last row of the previous day is from {last}."));
            let rule = "gpu-usage-audit records no reason for such time, and its report does not count it.";
            let lines: Vec<&str> = last.as_deref().into_iter().chain([rule]).collect();
            page.nothing(answer.at, "no row of this file covers this time", &lines);
        }
    }
    for keep in keeps {
        page.line("");
        page.line(format!("Kept by {} (`gua keep`).", keep.text));
    }
    page.out
}

fn title(gpu: &NamedGpu) -> String {
    let number = match (gpu.index, &gpu.parent) {
        (Some(index), None) => format!("GPU {index}"),
        (Some(index), Some(_)) => format!("MIG instance of GPU {index}"),
        (None, _) => "GPU".to_owned(),
    };
    let name = gpu.name.as_deref().map(sanitize);
    let uuid = gpu.uuid.as_ref().map(GpuUuid::to_string);
    let parts = [Some(number), name, uuid].into_iter().flatten();
    parts.collect::<Vec<_>>().join("  ")
}

struct Page<'a> {
    out: String,
    zone: &'a TimeZone,
}

impl Page<'_> {
    fn heading(&mut self, text: impl AsRef<str>) {
        let (bold, text) = (Style::new().bold(), text.as_ref());
        self.line(format!("{bold}{text}{bold:#}"));
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// An observation with its name, which is empty for a further line about the same.
    fn fact(&mut self, label: &str, text: impl AsRef<str>) {
        self.line(format!("  {label:<LABEL$}{}", text.as_ref()));
    }

    /// Observations of one kind, a line each; `none` if there are none.
    fn facts<T: ToString>(&mut self, label: &str, all: impl IntoIterator<Item = T>, none: &str) {
        let texts: Vec<String> = all
            .into_iter()
            .map(|one| sanitize(&one.to_string()))
            .collect();
        self.fact(label, texts.first().map_or(none, String::as_str));
        for text in texts.iter().skip(1) {
            self.fact("", text);
        }
    }

    fn time(&self, at: Timestamp) -> String {
        let form = match at.subsec_nanosecond() {
            0 => "%Y-%m-%d %H:%M:%S %Z",
            _ => "%Y-%m-%d %H:%M:%S.%3f %Z",
        };
        local(at, self.zone, form)
    }

    fn moment(&mut self, at: Timestamp, what: &str) {
        self.line(format!("{}, {what}", self.time(at)));
    }

    /// Explains why nothing is known about a time.
    fn nothing(&mut self, at: Timestamp, what: &str, lines: &[&str]) {
        self.moment(at, what);
        self.line("");
        for line in lines {
            self.line(line);
        }
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
                let (tick, covered) = (self.time(seen.at), seconds(period.micros()));
                let interval = seconds_of(*interval);
                self.line(format!(
                    "The tick of {tick} covers this time, {until}: {covered} of {interval}."
                ));
            }
        }
        self.line("");
        if seen.gpu.place.counts() {
            self.verdicts(seen);
        } else {
            self.heading("no state of its own: its MIG instances are counted in its place");
            for instance in &seen.instances {
                self.line(format!("  gua explain {instance}"));
            }
        }
        if let Some(gap) = &seen.gap {
            self.gap(gap);
        }
        self.line("");
        self.evidence(seen);
    }

    fn verdicts(&mut self, seen: &Seen) {
        let all: u64 = seen.shares.iter().map(|share| share.weight).sum();
        let basis = match seen.when {
            When::Now => None,
            When::Tick { basis, .. } => Some(basis),
        };
        for share in &seen.shares {
            let verdict = &share.verdict;
            let state = words::named(verdict.state);
            match seen.shares.len() {
                1 => self.heading(state),
                _ => self.heading(format!("{} of it {state}", percent(share.weight, all))),
            }
            if let Some(since) = seen.since {
                self.line(format!("  {}", self.since(since, seen.at)));
            }
            let samples = (basis == Some(Basis::Buffer)).then_some((share.weight, all));
            for reason in words::reasons(verdict, samples) {
                self.line(format!("  {reason}"));
            }
            self.line(format!("  Rule: {}.", words::rule(verdict.state)));
        }
        if basis == Some(Basis::Instant) {
            self.line("  One reading covers the whole time: the driver's buffer does not.");
        }
    }

    fn since(&self, since: Since, now: Timestamp) -> String {
        let age = short_age(now.duration_since(since.at).unsigned_abs());
        let bound = match since.start {
            Start::Seen => "",
            Start::AtLatest => " at least: there is no earlier sample",
        };
        format!("Since {} ({age}){bound}.", self.time(since.at))
    }

    fn evidence(&mut self, seen: &Seen) {
        let gpu = &seen.gpu;
        self.heading("Observations");
        let util = |util: &Percent| format!("{} % in the driver's last sample", util.get());
        self.fact("utilisation", reading(&gpu.util, util));
        let none = |why: &Missing| format!("none: {}", words::missing(*why));
        let unused = || "not used: it does not cover this time".to_owned();
        let window = match &seen.when {
            When::Now => gpu.window.as_ref().map_err(none),
            When::Tick { window, .. } => window.as_ref().ok_or_else(unused),
        };
        match window {
            Ok(window) => self.window(window, seen),
            Err(why) => self.fact("driver's buffer", why),
        }
        let total = gpu.memory_total.map_or("?".to_owned(), gigabytes);
        let memory = |used: &Bytes| format!("{} of {total} GB used", gigabytes(*used));
        self.fact("memory", reading(&gpu.memory_used, memory));
        self.fact("power", power(seen));
        let none = if is_known(gpu) { "no fault" } else { "unknown" };
        self.facts("health", faults(gpu), none);
        let thresholds = &seen.thresholds;
        let (util, held) = (thresholds.active_util.get(), thresholds.held_mb);
        let graphics = match thresholds.count_graphics {
            CountGraphics::Yes => "graphics-only processes count as holders",
            CountGraphics::No => "graphics-only processes do not hold a GPU",
        };
        self.fact(
            "thresholds",
            format!("active from {util} % on; held with more than {held} MB; {graphics}"),
        );
        self.processes(seen);
        self.facts("driver's errors", &seen.problems, "none");
    }

    fn window(&mut self, window: &UtilWindow, seen: &Seen) {
        let Some(mean) = window.mean() else {
            return self.fact("driver's buffer", "no samples");
        };
        let threshold = seen.thresholds.active_util;
        let over = window.histogram.at_or_over(threshold);
        let over = over.map(|over| format!(", {over} at or over {} %", threshold.get()));
        let (samples, over) = (window.samples(), over.unwrap_or_default());
        let (samples, covered) = (counted(samples, "sample"), window.covered.as_secs_f64());
        let most = window.max.map_or(0, Percent::get);
        self.fact(
            "driver's buffer",
            format!("{samples} over {covered:.1} s{over}; mean {mean:.1} %, highest {most} %"),
        );
        self.fact("", histogram(&window.histogram));
        if window.junk > 0 {
            let were = if window.junk == 1 { "was" } else { "were" };
            let junk = counted(window.junk.into(), "sample");
            self.fact("", format!("{junk} over 100 % {were} left out"));
        }
    }

    fn processes(&mut self, seen: &Seen) {
        let gpu = &seen.gpu;
        if let Err(why) = gpu.compute_list {
            let why = words::missing(why);
            self.fact("holders", format!("the list could not be read: {why}"));
        }
        let holding: Vec<&Process> = holders(gpu, &seen.thresholds).collect();
        match holding.len() {
            0 if gpu.compute_list.is_ok() => self.fact("holders", "none"),
            0 => {}
            count => self.fact("holders", count.to_string()),
        }
        for process in &holding {
            self.process(process, seen);
        }
        let others = gpu.processes.iter();
        let others: Vec<&Process> = others.filter(|it| !holding.contains(it)).collect();
        if !others.is_empty() {
            self.fact("not holders", "graphics only");
        }
        for process in others {
            self.process(process, seen);
        }
    }

    fn process(&mut self, process: &Process, seen: &Seen) {
        let identity = process.identity.as_ref().ok();
        let name = identity.and_then(|identity| identity.comm.as_ref().ok());
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
        self.fact("", format!("pid {}{name}, {memory}, {kind}", process.pid.0));
        self.fact("", format!("  {}", words::owner(process)));
        if let Some(since) = on_gpu_since(process, seen) {
            let age = short_age(seen.at.duration_since(since).unsigned_abs());
            let since = self.time(since);
            self.fact("", format!("  on the GPU since {since} ({age})"));
        }
    }

    fn gap(&mut self, gap: &GapFound) {
        self.line(format!("  {}", words::gap(gap.reason)));
        let [from, to] = [gap.period.from(), gap.period.to()].map(|at| self.time(at));
        let from_bound = if gap.from_is_bound { " or before" } else { "" };
        let to = match (gap.is_ongoing, gap.to_is_bound) {
            (true, _) => "until now".to_owned(),
            (false, true) => format!("to {to} or later"),
            (false, false) => format!("to {to}"),
        };
        let length = seconds(gap.period.micros());
        self.line(format!(
            "  It lasted from {from}{from_bound} {to}: {length}."
        ));
        for outage in &gap.outages {
            let lost = counted(outage.ticks_lost.into(), "tick");
            let detail = sanitize(&outage.detail);
            self.line(format!("  The collector recorded: {detail} ({lost} lost)"));
        }
        let (rule, reason) = (words::rule(State::Unobserved), gap.reason);
        self.line(format!("  Rule: {rule} ({reason})."));
    }

    fn quarter(&mut self, at: Timestamp, quarter: &QuarterFound) {
        self.moment(at, "only the total of its quarter hour is known");
        let kept = self.time(quarter.raw_from);
        self.line(format!(
            "Ticks are kept from {kept} on (history.keep_raw); older time is kept as totals."
        ));
        self.line("");
        let period = quarter.period;
        let [from, to] = [period.from(), period.to()].map(|at| self.time(at));
        self.heading(format!("From {from} to {to}"));
        for ((state, basis), sum) in &quarter.total.states {
            let basis = match basis {
                Basis::Buffer => "from the driver's buffer",
                Basis::Instant => "from single readings",
                Basis::Imported => "from imported rows",
            };
            let counts_as = words::counts_as(*state).map(|counts_as| format!("; {counts_as}"));
            let (time, counts_as) = (seconds(sum.micros), counts_as.unwrap_or_default());
            self.fact(state.as_str(), format!("{time}, {basis}{counts_as}"));
        }
        for (reason, time) in &quarter.total.unobserved {
            let (time, reason) = (seconds(*time), words::gap(*reason));
            self.fact("not observed", format!("{time}: {reason}"));
        }
        for (name, (_, owner)) in quarter.owners.iter().zip(&quarter.total.owners) {
            let name = known_name(name.as_deref());
            self.fact("holder", format!("{name}, {}", seconds(owner.held)));
        }
        self.fact("ticks", quarter.total.gpu.ticks.to_string());
    }

    fn imported_row(&mut self, at: Timestamp, row: &ImportedRow) {
        self.moment(at, "a row of gpu-usage-audit");
        let (tick, interval) = (self.time(row.at), seconds_of(row.interval));
        self.line(format!(
            "The row of {tick} covers this time: {interval}, its run's interval."
        ));
        self.line("");
        self.heading(format!(
            "{}: as counted by the tool that wrote it",
            row.class.as_str()
        ));
        let (util, is_busy) = (row.util, row.util >= 10);
        let side = if is_busy { "at or over" } else { "below" };
        self.line(format!("  The utilisation was {util} %, {side} 10 %."));
        if !is_busy {
            let memory: u64 = row.processes.iter().filter_map(|(_, mb)| *mb).sum();
            let side = if memory > 100 { "more" } else { "not more" };
            self.line(format!(
                "  Its processes had {memory} MB together, {side} than 100 MB."
            ));
        }
        self.line("  Rule: every process of a row counts, graphics too, and unknown memory counts as zero.");
        for (name, mb) in &row.processes {
            let memory = mb.map_or("memory unknown".to_owned(), |mb| format!("{mb} MB"));
            self.fact(
                "process",
                format!("{}, {memory}", known_name(name.as_deref())),
            );
        }
    }
}

/// Returns the time since which a process has been on the GPU, if it is recorded.
fn on_gpu_since(process: &Process, seen: &Seen) -> Option<Timestamp> {
    let key = process.identity.as_ref().ok()?.key;
    let mut sessions = seen.sessions.iter().rev();
    let session = sessions.find(|session| session.key.process == key);
    session.map(|session| session.from)
}

fn known_name(name: Option<&str>) -> String {
    name.map_or("unknown".to_owned(), sanitize)
}

fn power(seen: &Seen) -> String {
    let power = reading(&seen.gpu.power, |power| {
        format!("{} W", power.whole_watts())
    });
    let mut floors = seen
        .shares
        .iter()
        .map(|share| share.verdict.evidence.idle_floor);
    match floors.next().flatten().map(|floor| floor.whole_watts()) {
        Some(floor) => format!("{power}; idle floor {floor} W, from the seven days before"),
        None => format!("{power}; the idle floor is unknown, so `stalled` cannot be detected"),
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
    let shown = bars.filter(|(_, samples)| *samples > 0);
    let shown = shown.map(|((from, to), samples)| match *from == to {
        true => format!("{from} %: {samples}"),
        false => format!("{from}-{to} %: {samples}"),
    });
    format!("by utilisation: {}", shown.collect::<Vec<_>>().join(", "))
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
