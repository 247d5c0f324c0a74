//! Runs as text, tables and JSON (`docs/schema/gua.runs.v1.json`). A summary is written by its user, in any shape: values that
//! do not fit are left out.

mod summary;

use std::time::Duration;

use gua_model::run::{RolledUp, WatcherState, peak_memory};
use gua_model::table;
use gua_model::table::{Cell, Header, Table};
use gua_model::text::{Clockwise, sanitize};
use gua_query::WatchedRun;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use self::summary::Summary;
use crate::document::documents;

/// Format name of [`RunsDocument`].
pub const SCHEMA: &str = "gua.runs.v1";

documents! {
    /// Output of `gua runs list --json` and `gua runs compare --json`: watched jobs, the last first. `gua runs show
    /// --json` prints one of them. Keys may be added under the same version; none changes its meaning. Null means
    /// unknown, never zero.
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
        summary: Value = match shown.run.ended {
            Some(_) => serde_json::from_str(&shown.run.summary).unwrap_or_default(),
            None => Value::Null,
        },
    }
}

/// Shown for a value that the summary does not have.
const MISSING: &str = "-";

/// A run with its parsed summary.
#[derive(Debug)]
pub struct ShownRun<'a> {
    run: &'a WatchedRun,
    /// Summary of a run that has ended.
    summary: Summary,
    /// State of the watching process of a run that has not ended.
    watcher: Option<WatcherState>,
}

impl<'a> ShownRun<'a> {
    /// Parses the summary. `state_of` finds out about the watching process that a run without an end recorded at its start.
    pub fn new(run: &'a WatchedRun, state_of: impl Fn(&str) -> WatcherState) -> Self {
        let (summary, watcher) = match run.ended {
            Some(_) => (Summary::parse(&run.summary), None),
            None => (Summary::default(), Some(state_of(&run.summary))),
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
        Some(self.summary.run.seconds.unwrap_or_else(wall))
    }

    fn exit(&self) -> Cell {
        match self.run.exit_code {
            Some(code) => Cell::Count(u64::from(code.unsigned_abs())),
            None => Cell::Missing,
        }
    }

    /// One of the ten numbers; missing if the run reports that nothing was measured.
    fn top(&self, measured: &str, value: Option<f64>) -> Cell {
        let mut unmeasured = self.summary.unmeasured.iter().flatten();
        let is_unmeasured = unmeasured.any(|one| one.as_deref() == Some(measured));
        number(value.filter(|_| !is_unmeasured))
    }

    /// Energy of all GPUs, if it is known for each of them.
    fn energy(&self) -> Cell {
        let gpus = self.summary.gpus.iter();
        let all: Option<Vec<f64>> = gpus.map(|gpu| *gpu.energy_joules).collect();
        let all = all.filter(|all| !all.is_empty());
        number(all.map(|all| all.iter().sum()))
    }

    /// Share of the GPUs' known time in which they were active.
    fn active(&self) -> Cell {
        let gpus = self.summary.gpus.iter();
        let time: RolledUp = gpus.map(|gpu| gpu.rolled_up()).sum();
        number(time.active_share().map(|share| 100.0 * share))
    }
}

fn number(value: Option<f64>) -> Cell {
    value
        .filter(|value| value.is_finite())
        .map_or(Cell::Missing, Cell::Number)
}

fn local(at: Timestamp, zone: &TimeZone) -> String {
    crate::document::local(at, zone, "%Y-%m-%d %H:%M:%S")
}

/// Everything that tables show of runs, a line each.
fn table(runs: &[ShownRun<'_>], zone: &TimeZone) -> Table {
    // As in the original program, summaries omit a memory utilisation of 0. `unmeasured` lists values that were not measured.
    let left_out = |run: &ShownRun<'_>| run.summary.unmeasured.as_ref().map(|_| 0.0);
    table!(run in runs =>
        "run" => run.run.run.as_str(),
        "user" => run.user(),
        "name" => run.run.name.as_str(),
        "started" => local(run.run.started, zone),
        "seconds" => number(run.seconds()),
        "exit_code" as "exit" => run.exit(),
        "gpus" => run.run.gpus.len(),
        "gpu_util_mean_pct" as "gpu busy %" => run.top("gpu_util", *run.summary.gpu_util_mean_pct),
        "gpu_util_max_pct" as "gpu busy max %" => run.top("gpu_util", *run.summary.gpu_util_max_pct),
        "peak_vram_mb" as "peak vram MB" => run.top("vram", *run.summary.peak_vram_mb),
        "mem_util_mean_pct" as "mem busy %" => run.top("mem_util", run.summary.mem_util_mean_pct.or(left_out(run))),
        "power_watts_mean" as "power W" => run.top("power", *run.summary.power_watts_mean),
        "energy_joules" as "energy J" => run.energy(),
        "active_pct" as "active %" => run.active(),
        "cpu_seconds" as "cpu s" => number(*run.summary.tree.cpu_seconds),
        "cpu_cores_mean" as "cores" => number(*run.summary.tree.cpu_cores_mean),
        "memory_max_mb" as "memory MB" => number(*run.summary.tree.memory_max_mb),
        "written_mb" as "wrote MB" => number(*run.summary.tree.written_mb),
        "state" => run.state(),
    )
}

/// Columns of the list of runs.
const LISTED: &str = "run user name started seconds exit_code gpus gpu_util_mean_pct peak_vram_mb \
                      active_pct cpu_cores_mean state";

/// Columns that a comparison omits. The run is the title of its column.
const NOT_COMPARED: &str = "run started state";

/// Columns that the first lines about a single run show in sentences. The other columns are its measures.
const IN_SENTENCES: &str = "run user name started seconds exit_code gpus state";

/// Returns whether a group of columns has this key.
fn has(group: &str, key: &str) -> bool {
    group.split(' ').any(|one| one == key)
}

pub fn list(runs: &[ShownRun<'_>], zone: &TimeZone) -> Table {
    table(runs, zone).only_keys(|key| has(LISTED, key))
}

/// Returns a line for each measure, with a column for each run.
pub fn compare(runs: &[ShownRun<'_>], zone: &TimeZone) -> Table {
    let all = table(runs, zone);
    let mut compared = Table::new([("measure", "")]);
    let names = runs.iter().map(|shown| &shown.run.run);
    let columns = names.map(|name| Header::new(name.as_str(), name.as_str()));
    compared.columns.extend(columns);
    for (place, Header { key, title, .. }) in all.columns.iter().enumerate() {
        if !has(NOT_COMPARED, key) {
            let cells = all.rows.iter().map(|row| row[place].clone());
            let line = std::iter::once(title.as_str().into()).chain(cells);
            compared.rows.push(line.collect());
        }
    }
    compared
}

pub fn one(shown: &ShownRun<'_>, zone: &TimeZone) -> String {
    let run = shown.run;
    let mut lines = vec![format!("run {} of {}: {}", run.run, shown.user(), run.name)];
    lines.push(match (run.ended, shown.seconds()) {
        (Some(ended), Some(seconds)) => format!(
            "from {} to {} ({}), exit code {}",
            local(run.started, zone),
            local(ended, zone),
            match Duration::try_from_secs_f64(seconds.round()) {
                Ok(length) => Clockwise(length).to_string(),
                Err(_) => MISSING.to_owned(),
            },
            shown.exit().shown()
        ),
        _ => format!(
            "since {}; {}",
            local(run.started, zone),
            match shown.watcher {
                Some(WatcherState::Running) => "still running",
                Some(WatcherState::Lost) =>
                    "lost: the watching process exited without recording the end",
                _ => "its end was not recorded",
            }
        ),
    });
    let text = |text: Option<&str>| text.map_or_else(|| MISSING.to_owned(), sanitize);
    let in_unit = |value: Option<f64>, digits: usize, unit: &str| match value {
        Some(value) => format!("{value:.digits$}{unit}"),
        None => MISSING.to_owned(),
    };
    for gpu in shown.summary.gpus.iter() {
        let index = gpu
            .index
            .map_or_else(|| MISSING.to_owned(), |index| index.to_string());
        let memory = peak_memory(
            *gpu.own_memory_max_mb,
            *gpu.memory_used_max_mb,
            *gpu.memory_total_mb,
        );
        lines.push(format!(
            "gpu {index} {}: {} busy, {memory}, {} J",
            text(gpu.name.as_deref()),
            in_unit(*gpu.util_mean_pct, 0, " %"),
            in_unit(*gpu.energy_joules, 0, "")
        ));
        if let Some(states) = gpu.states_seconds.as_ref() {
            let states = states
                .iter()
                .map(|(name, time)| format!("{} {}", sanitize(name), in_unit(**time, 0, " s")));
            lines.push(format!("  {}", states.collect::<Vec<_>>().join(", ")));
        }
    }
    let all = table(std::slice::from_ref(shown), zone);
    let measures = all.only_keys(|key| !has(IN_SENTENCES, key));
    for (column, measure) in measures.columns.iter().zip(measures.rows.iter().flatten()) {
        lines.push(format!("{:<15} {}", column.title, measure.shown()));
    }
    for phase in shown.summary.phases.iter() {
        let seconds = in_unit(*phase.seconds, 1, " s");
        lines.push(format!("phase {}: {seconds}", text(phase.name.as_deref())));
    }
    for note in shown
        .summary
        .notes
        .iter()
        .filter_map(|note| note.as_deref())
    {
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
        let table = table(
            &[ShownRun::new(&run, |_| WatcherState::Unknown)],
            &TimeZone::UTC,
        );
        let place = table.columns.iter().position(|column| column.key == key);
        table.rows[0][place.unwrap()].shown()
    }

    fn shown_alone(run: &WatchedRun) -> String {
        let run = ShownRun::new(run, |_| WatcherState::Unknown);
        one(&run, &TimeZone::UTC)
    }

    #[test]
    fn each_word_of_a_group_is_the_key_of_a_column() {
        let all = table(&[], &TimeZone::UTC);
        for group in [LISTED, NOT_COMPARED, IN_SENTENCES] {
            for key in group.split(' ') {
                assert!(all.columns.iter().any(|column| column.key == key), "{key}");
            }
        }
    }

    #[test]
    fn a_measured_zero_is_not_unknown() {
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
    fn a_value_of_another_type_costs_only_itself() {
        let summary = json!({
            "power_watts_mean": "high", "peak_vram_mb": 12, "unmeasured": [7, "power"], "tree": [], "notes": [1, "slow"],
            "gpus": ["x", {"index": "\u{9b}2J", "energy_joules": 5, "states_seconds": {"active": 3, "new": 1, "ghost": "1"}}],
        });
        let check = |key: &str, expected: &str| assert_eq!(measured(&summary, key), expected);
        check("power_watts_mean", "-");
        check("peak_vram_mb", "12.0");
        check("energy_joules", "-");
        check("active_pct", "100.0");
        check("cpu_seconds", "-");
        let shown = run(&summary);
        let shown = shown_alone(&shown);
        assert!(shown.contains("\ngpu - -: - busy, "), "{shown}");
        assert!(
            shown.contains("  active 3 s, ghost -, new 1 s\n"),
            "{shown}"
        );
        assert!(shown.contains("\nnote: slow\n"), "{shown}");
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
        let shown = shown_alone(&run);
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
            let shown = shown_alone(&run);
            assert!(shown.contains(expected), "{shown}");
        };
        check(200.into(), "busy, memory up to 200 MB of 2.0 GB,");
        check(
            Value::Null,
            "busy, memory of the GPU up to 900 MB of 2.0 GB,",
        );
    }
}
