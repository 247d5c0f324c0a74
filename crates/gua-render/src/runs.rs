//! Runs as text, tables and JSON (`docs/schema/gua.runs.v1.json`). A summary is written by its user, in any shape: values that
//! do not fit are left out.

use std::time::Duration;

use gua_model::State;
use gua_model::run::{RolledUp, WatcherState, peak_memory};
use gua_model::table::{Cell, Header, Table};
use gua_model::text::{Clockwise, sanitize};
use gua_query::WatchedRun;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::document::documents;

/// Format name of [`RunsDocument`].
pub const SCHEMA: &str = "gua.runs.v1";

documents! {
    /// What `gua runs list --json` and `gua runs compare --json` print: watched jobs, the last first. `gua runs show --json` prints one
    /// of them. Keys may be added under the same version; none changes its meaning. Null means unknown, never zero.
    pub struct RunsDocument from (shown: &[ShownRun<'_>]) {
        schema: &'static str = SCHEMA,
        runs: Vec<RunDocument> = shown.iter().map(RunDocument::new).collect(),
    }

    /// One watched job.
    pub struct RunDocument from (shown: &ShownRun<'_>) {
        /// Name of the run.
        run: String = shown.run.run.clone(),
        /// Null if the name is not known.
        user: Option<String> = shown.run.owner.name.clone(),
        uid: u32 = shown.run.owner.uid.0,
        /// The program, never its arguments.
        name: String = shown.run.name.clone(),
        started: Timestamp = shown.run.started,
        /// Null while it runs, or if its end was not recorded.
        ended: Option<Timestamp> = shown.run.ended,
        /// `running`, `ended`, `lost` (the watching process exited without recording the end) or `unknown` (no end was recorded, and
        /// the watching process is not visible from here).
        state: &'static str = shown.state(),
        /// As a shell reports it: 128 and the number of the signal that killed the job.
        exit_code: Option<i32> = shown.run.exit_code,
        /// UUIDs.
        gpus: Vec<String> = shown.run.gpus.iter().map(ToString::to_string).collect(),
        /// `summary.json` of the run (gua.summary.v1), as its user wrote it; null before its end.
        summary: Value = shown.summary.clone(),
    }
}

/// Shown for a value that the summary does not have.
const MISSING: &str = "-";

/// A run with its parsed summary.
#[derive(Debug)]
pub struct ShownRun<'a> {
    run: &'a WatchedRun,
    /// Summary of a run that has ended.
    summary: Value,
    /// State of the watching process of a run that has not ended.
    watcher: Option<WatcherState>,
}

/// Source of a measure in the summary. Its name there is the key of the measure.
#[derive(Clone, Copy)]
enum Source {
    /// One of the numbers at the top; missing if the summary lists this name as unmeasured.
    Top(&'static str),
    /// A number of the process tree.
    Tree,
    Other(fn(&ShownRun<'_>) -> Cell),
}

/// Measures by which runs are compared: key, title and source.
const MEASURES: [(&str, &str, Source); 14] = {
    use Source::{Other, Top, Tree};
    [
        ("seconds", "seconds", Other(|run| number(run.seconds()))),
        ("exit_code", "exit", Other(|run| run.exit())),
        ("gpus", "gpus", Other(|run| run.run.gpus.len().into())),
        ("gpu_util_mean_pct", "gpu busy %", Top("gpu_util")),
        ("gpu_util_max_pct", "gpu busy max %", Top("gpu_util")),
        ("peak_vram_mb", "peak vram MB", Top("vram")),
        ("mem_util_mean_pct", "mem busy %", Top("mem_util")),
        ("power_watts_mean", "power W", Top("power")),
        ("energy_joules", "energy J", Other(|run| run.energy())),
        ("active_pct", "active %", Other(|run| run.active())),
        ("cpu_seconds", "cpu s", Tree),
        ("cpu_cores_mean", "cores", Tree),
        ("memory_max_mb", "memory MB", Tree),
        ("written_mb", "wrote MB", Tree),
    ]
};

impl<'a> ShownRun<'a> {
    /// Parses the summary. `state_of` finds out about the watching process that a run without an end recorded at its start.
    pub fn new(run: &'a WatchedRun, state_of: impl Fn(&Value) -> WatcherState) -> Self {
        let shown = serde_json::from_str(&run.summary).unwrap_or(Value::Null);
        let (summary, watcher) = match run.ended {
            Some(_) => (shown, None),
            None => (Value::Null, Some(state_of(&shown))),
        };
        Self {
            run,
            summary,
            watcher,
        }
    }

    fn state(&self) -> &'static str {
        self.watcher.map_or("ended", WatcherState::as_str)
    }

    fn user(&self) -> String {
        let owner = &self.run.owner;
        owner.name.clone().unwrap_or_else(|| owner.uid.to_string())
    }

    /// Duration by the run's own clock, which cannot be set; if it is not recorded, by the wall clock.
    fn seconds(&self) -> Option<f64> {
        let ended = self.run.ended?;
        let wall = || ended.duration_since(self.run.started).as_secs_f64();
        let own = self.summary["run"]["seconds"].as_f64();
        Some(own.unwrap_or_else(wall))
    }

    fn exit(&self) -> Cell {
        match self.run.exit_code {
            Some(code) => Cell::Count(u64::from(code.unsigned_abs())),
            None => Cell::Missing,
        }
    }

    /// One of the ten numbers; missing if the run reports that nothing was measured.
    fn top(&self, name: &str, measured: &str) -> Cell {
        let unmeasured = self.summary["unmeasured"].as_array();
        let is_unmeasured =
            unmeasured.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(measured)));
        // The original program also leaves out a zero here.
        let left_out = unmeasured.filter(|_| measured == "mem_util").map(|_| 0.0);
        let value = self.summary[name].as_f64().or(left_out);
        number(value.filter(|_| !is_unmeasured))
    }

    fn measure(&self, key: &str, source: Source) -> Cell {
        match source {
            Source::Top(measured) => self.top(key, measured),
            Source::Tree => number(self.summary["tree"][key].as_f64()),
            Source::Other(measure) => measure(self),
        }
    }

    fn list(&self, key: &str) -> &[Value] {
        self.summary[key].as_array().map_or(&[], Vec::as_slice)
    }

    /// Energy of all GPUs, if it is known for each of them.
    fn energy(&self) -> Cell {
        let gpus = self.list("gpus").iter();
        let all: Option<Vec<f64>> = gpus.map(|gpu| gpu["energy_joules"].as_f64()).collect();
        let all = all.filter(|all| !all.is_empty());
        number(all.map(|all| all.iter().sum()))
    }

    /// Share of the GPUs' known time in which they were active.
    fn active(&self) -> Cell {
        let time: RolledUp = self.list("gpus").iter().map(rolled_up).sum();
        number(time.active_share().map(|share| 100.0 * share))
    }
}

fn rolled_up(gpu: &Value) -> RolledUp {
    let states = gpu["states_seconds"].as_object();
    let states = states.into_iter().flatten();
    RolledUp::of(states.filter_map(|(name, seconds)| {
        let state = State::ALL.into_iter().find(|state| state.as_str() == name);
        Some((state, seconds.as_f64()?))
    }))
}

fn number(value: Option<f64>) -> Cell {
    value
        .filter(|value| value.is_finite())
        .map_or(Cell::Missing, Cell::Number)
}

fn local(at: Timestamp) -> String {
    crate::document::local(at, &TimeZone::system(), "%Y-%m-%d %H:%M:%S")
}

#[must_use]
pub fn list(runs: &[ShownRun<'_>]) -> Table {
    let shown = [
        "seconds",
        "exit_code",
        "gpus",
        "gpu_util_mean_pct",
        "peak_vram_mb",
        "active_pct",
        "cpu_cores_mean",
    ];
    let measures = MEASURES.into_iter();
    let measures: Vec<_> = measures.filter(|(key, ..)| shown.contains(key)).collect();
    let mut table = Table::new(["run", "user", "name", "started"].map(|key| (key, key)));
    let titles = measures
        .iter()
        .map(|(key, title, _)| Header::new(*key, *title));
    table.columns.extend(titles);
    table.columns.push(Header::new("state", "state"));
    for shown in runs {
        let mut row: Vec<Cell> = vec![
            shown.run.run.as_str().into(),
            shown.user().into(),
            shown.run.name.as_str().into(),
            local(shown.run.started).into(),
        ];
        let cells = measures
            .iter()
            .map(|(key, _, source)| shown.measure(key, *source));
        row.extend(cells);
        row.push(shown.state().into());
        table.rows.push(row);
    }
    table
}

/// Returns a line for each measure, with a column for each run.
#[must_use]
pub fn compare(runs: &[ShownRun<'_>]) -> Table {
    let mut table = Table::new([("measure", "")]);
    let names = runs.iter().map(|shown| &shown.run.run);
    let columns = names.map(|name| Header::new(name.as_str(), name.as_str()));
    table.columns.extend(columns);
    let mut line = |name: &str, cell: &dyn Fn(&ShownRun<'_>) -> Cell| {
        let cells = runs.iter().map(cell);
        let row = std::iter::once(name.into()).chain(cells).collect();
        table.rows.push(row);
    };
    line("user", &|shown| shown.user().into());
    line("name", &|shown| shown.run.name.as_str().into());
    for (key, title, source) in MEASURES {
        line(title, &|shown| shown.measure(key, source));
    }
    table
}

#[must_use]
pub fn one(shown: &ShownRun<'_>) -> String {
    let run = shown.run;
    let mut lines = vec![format!("run {} of {}: {}", run.run, shown.user(), run.name)];
    lines.push(match (run.ended, shown.seconds()) {
        (Some(ended), Some(seconds)) => format!(
            "from {} to {} ({}), exit code {}",
            local(run.started),
            local(ended),
            match Duration::try_from_secs_f64(seconds.round()) {
                Ok(length) => Clockwise(length).to_string(),
                Err(_) => MISSING.to_owned(),
            },
            shown.exit().shown()
        ),
        _ => format!(
            "since {}; {}",
            local(run.started),
            match shown.watcher {
                Some(WatcherState::Running) => "still running",
                Some(WatcherState::Lost) =>
                    "lost: the watching process exited without recording the end",
                _ => "its end was not recorded",
            }
        ),
    });
    let text = |value: &Value| value.as_str().map_or_else(|| MISSING.to_owned(), sanitize);
    let in_unit = |value: &Value, digits: usize, unit: &str| match value.as_f64() {
        Some(value) => format!("{value:.digits$}{unit}"),
        None => MISSING.to_owned(),
    };
    for gpu in shown.list("gpus") {
        let rounded = |key: &str, unit: &str| in_unit(&gpu[key], 0, unit);
        let [own, used, total] = ["own_memory_max_mb", "memory_used_max_mb", "memory_total_mb"]
            .map(|key| gpu[key].as_u64());
        let (index, name, memory) = (
            &gpu["index"],
            text(&gpu["name"]),
            peak_memory(own, used, total),
        );
        let (busy, energy) = (rounded("util_mean_pct", " %"), rounded("energy_joules", ""));
        lines.push(format!(
            "gpu {index} {name}: {busy} busy, {memory}, {energy} J"
        ));
        if let Some(states) = gpu["states_seconds"].as_object() {
            let states = states
                .iter()
                .map(|(name, seconds)| format!("{} {}", sanitize(name), in_unit(seconds, 0, " s")));
            lines.push(format!("  {}", states.collect::<Vec<_>>().join(", ")));
        }
    }
    for (key, title, source) in MEASURES.into_iter().skip(3) {
        lines.push(format!(
            "{title:<15} {}",
            shown.measure(key, source).shown()
        ));
    }
    for phase in shown.list("phases") {
        let seconds = in_unit(&phase["seconds"], 1, " s");
        lines.push(format!("phase {}: {seconds}", text(&phase["name"])));
    }
    for note in shown.list("notes").iter().filter_map(Value::as_str) {
        lines.push(format!("note: {}", sanitize(note)));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use gua_model::{Uid, User};
    use serde_json::json;

    use super::*;

    fn run(summary: &Value) -> WatchedRun {
        WatchedRun {
            run: "r".to_owned(),
            owner: User {
                uid: Uid(7),
                name: None,
            },
            name: "python".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            ended: Timestamp::from_second(3600).ok(),
            exit_code: Some(0),
            gpus: Vec::new(),
            summary: summary.to_string(),
        }
    }

    fn measured(summary: &Value, key: &str) -> String {
        let run = run(summary);
        let (key, _, source) = MEASURES
            .into_iter()
            .find(|(name, ..)| *name == key)
            .unwrap();
        let shown = ShownRun::new(&run, |_| WatcherState::Unknown);
        shown.measure(key, source).shown()
    }

    #[test]
    fn a_zero_that_was_measured_is_no_unknown() {
        let check = |summary: Value, expected: &str| {
            assert_eq!(measured(&summary, "mem_util_mean_pct"), expected);
        };
        check(json!({"unmeasured": []}), "0.0");
        check(json!({"unmeasured": ["mem_util"]}), "-");
        check(json!({"unmeasured": [], "mem_util_mean_pct": 4.5}), "4.5");
        check(json!({}), "-");
        assert_eq!(
            measured(&json!({"unmeasured": []}), "power_watts_mean"),
            "-"
        );
    }

    #[test]
    fn a_run_took_what_its_own_clock_says_though_the_walls_was_set() {
        assert_eq!(
            measured(&json!({"run": {"seconds": 12.5}}), "seconds"),
            "12.5"
        );
        assert_eq!(measured(&Value::Null, "seconds"), "3600.0");
    }

    #[test]
    fn a_time_that_was_not_recorded_is_never_shown_as_zero() {
        let summary = json!({
            "run": {"seconds": -1.0},
            "gpus": [{"index": 0, "states_seconds": {"active": null, "idle-held": 0.0}}],
            "phases": [{"name": "load"}, {"name": "train", "seconds": 0.0}],
        });
        let run = run(&summary);
        let shown = one(&ShownRun::new(&run, |_| WatcherState::Unknown));
        for expected in [
            " (-), exit code 0\n",
            "  active -, idle-held 0 s\n",
            "phase load: -\n",
            "phase train: 0.0 s\n",
        ] {
            assert!(shown.contains(expected), "{expected:?} in {shown}");
        }
    }

    #[test]
    fn memory_is_the_jobs_own_as_at_the_end_of_the_run() {
        let check = |own: Value, expected: &str| {
            let gpu = json!({"index": 0, "own_memory_max_mb": own, "memory_used_max_mb": 900, "memory_total_mb": 2048});
            let run = run(&json!({"gpus": [gpu]}));
            let shown = one(&ShownRun::new(&run, |_| WatcherState::Unknown));
            assert!(shown.contains(expected), "{shown}");
        };
        check(200.into(), "busy, memory up to 200 MB of 2.0 GB,");
        check(
            Value::Null,
            "busy, memory of the GPU up to 900 MB of 2.0 GB,",
        );
    }
}
