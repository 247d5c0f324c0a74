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
use serde_json::{Value, json};

/// Format name of the JSON document. Keys may be added under the same version; none changes its meaning.
const SCHEMA: &str = "gua.runs.v1";

/// A run with its parsed summary.
#[derive(Debug)]
pub struct ShownRun<'a> {
    run: &'a WatchedRun,
    /// Summary of a run that has ended.
    summary: Value,
    /// State of the watching process of a run that has not ended.
    watcher: Option<WatcherState>,
}

/// Key, title and source of a measure.
type Measure = (&'static str, &'static str, fn(&ShownRun<'_>) -> Cell);

/// Measures by which runs are compared.
const MEASURES: [Measure; 14] = [
    ("seconds", "seconds", |shown| number(shown.seconds())),
    ("exit_code", "exit", |shown| shown.exit()),
    ("gpus", "gpus", |shown| {
        Cell::Count(shown.run.gpus.len() as u64)
    }),
    ("gpu_util_mean_pct", "gpu busy %", |shown| {
        shown.top("gpu_util_mean_pct", "gpu_util")
    }),
    ("gpu_util_max_pct", "gpu busy max %", |shown| {
        shown.top("gpu_util_max_pct", "gpu_util")
    }),
    ("peak_vram_mb", "peak vram MB", |shown| {
        shown.top("peak_vram_mb", "vram")
    }),
    ("mem_util_mean_pct", "mem busy %", |shown| {
        shown.top("mem_util_mean_pct", "mem_util")
    }),
    ("power_watts_mean", "power W", |shown| {
        shown.top("power_watts_mean", "power")
    }),
    ("energy_joules", "energy J", |shown| shown.energy()),
    ("active_pct", "active %", |shown| shown.active()),
    ("cpu_seconds", "cpu s", |shown| shown.tree("cpu_seconds")),
    ("cpu_cores_mean", "cores", |shown| {
        shown.tree("cpu_cores_mean")
    }),
    ("memory_max_mb", "memory MB", |shown| {
        shown.tree("memory_max_mb")
    }),
    ("written_mb", "wrote MB", |shown| shown.tree("written_mb")),
];

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

    fn tree(&self, name: &str) -> Cell {
        number(self.summary["tree"][name].as_f64())
    }

    fn gpus(&self) -> &[Value] {
        self.summary["gpus"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Energy of all GPUs, if it is known for each of them.
    fn energy(&self) -> Cell {
        let all: Option<Vec<f64>> = self
            .gpus()
            .iter()
            .map(|gpu| gpu["energy_joules"].as_f64())
            .collect();
        number(
            all.filter(|all| !all.is_empty())
                .map(|all| all.iter().sum()),
        )
    }

    /// Share of the GPUs' known time in which they were active.
    fn active(&self) -> Cell {
        let time: RolledUp = self.gpus().iter().map(rolled_up).sum();
        number(time.active_share().map(|share| 100.0 * share))
    }

    #[must_use]
    pub fn json(&self) -> Value {
        let run = self.run;
        json!({
            "run": run.run,
            "user": run.owner.name,
            "uid": run.owner.uid.0,
            "name": run.name,
            "started": run.started.to_string(),
            "ended": run.ended.map(|ended| ended.to_string()),
            "state": self.state(),
            "exit_code": run.exit_code,
            "gpus": run.gpus.iter().map(|uuid| uuid.as_str()).collect::<Vec<_>>(),
            "summary": self.summary,
        })
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
    let at = at.to_zoned(TimeZone::system());
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
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
    let measures: Vec<_> = MEASURES
        .iter()
        .filter(|(key, _, _)| shown.contains(key))
        .collect();
    let mut table = Table::new([
        ("run", "run"),
        ("user", "user"),
        ("name", "name"),
        ("started", "started"),
    ]);
    table.columns.extend(
        measures
            .iter()
            .map(|(key, title, _)| Header::new((*key).to_owned(), (*title).to_owned())),
    );
    table
        .columns
        .push(Header::new("state".to_owned(), "state".to_owned()));
    for shown in runs {
        let mut row = vec![
            Cell::Text(shown.run.run.clone()),
            Cell::Text(shown.user()),
            Cell::Text(shown.run.name.clone()),
            Cell::Text(local(shown.run.started)),
        ];
        row.extend(measures.iter().map(|(_, _, measure)| measure(shown)));
        row.push(Cell::Text(shown.state().to_owned()));
        table.rows.push(row);
    }
    table
}

#[must_use]
pub fn list_json(runs: &[ShownRun<'_>]) -> Value {
    let runs: Vec<Value> = runs.iter().map(ShownRun::json).collect();
    json!({ "schema": SCHEMA, "runs": runs })
}

/// Returns a line for each measure, with a column for each run.
#[must_use]
pub fn compare(runs: &[ShownRun<'_>]) -> Table {
    let mut table = Table::new([("measure", "")]);
    table.columns.extend(
        runs.iter()
            .map(|shown| Header::new(shown.run.run.clone(), shown.run.run.clone())),
    );
    let line = |name: &str, cell: &dyn Fn(&ShownRun<'_>) -> Cell| {
        let cells = runs.iter().map(cell);
        std::iter::once(Cell::Text(name.to_owned()))
            .chain(cells)
            .collect()
    };
    table
        .rows
        .push(line("user", &|shown| Cell::Text(shown.user())));
    table
        .rows
        .push(line("name", &|shown| Cell::Text(shown.run.name.clone())));
    for (_, title, measure) in MEASURES {
        table.rows.push(line(title, &measure));
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
            Clockwise(Duration::try_from_secs_f64(seconds.round()).unwrap_or_default()),
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
    for gpu in shown.gpus() {
        let percent = |value: &Value| {
            value
                .as_f64()
                .map_or("-".to_owned(), |value| format!("{value:.0} %"))
        };
        lines.push(format!(
            "gpu {} {}: {} busy, {}, {} J",
            gpu["index"],
            gpu["name"]
                .as_str()
                .map_or_else(|| "-".to_owned(), sanitize),
            percent(&gpu["util_mean_pct"]),
            peak_memory(
                gpu["own_memory_max_mb"].as_u64(),
                gpu["memory_used_max_mb"].as_u64(),
                gpu["memory_total_mb"].as_u64(),
            ),
            gpu["energy_joules"]
                .as_f64()
                .map_or("-".to_owned(), |joules| format!("{joules:.0}")),
        ));
        if let Some(states) = gpu["states_seconds"].as_object() {
            let state = |(name, seconds): (&String, &Value)| {
                format!(
                    "{} {:.0} s",
                    sanitize(name),
                    seconds.as_f64().unwrap_or(0.0)
                )
            };
            let states: Vec<String> = states.iter().map(state).collect();
            lines.push(format!("  {}", states.join(", ")));
        }
    }
    for (_, title, measure) in MEASURES.iter().skip(3) {
        lines.push(format!("{title:<15} {}", measure(shown).shown()));
    }
    let phases = shown.summary["phases"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for phase in phases {
        lines.push(format!(
            "phase {}: {:.1} s",
            phase["name"]
                .as_str()
                .map_or_else(|| "-".to_owned(), sanitize),
            phase["seconds"].as_f64().unwrap_or(0.0)
        ));
    }
    let notes = shown.summary["notes"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for note in notes.iter().filter_map(Value::as_str) {
        lines.push(format!("note: {}", sanitize(note)));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use gua_model::{Uid, User};

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
        let measure = MEASURES.iter().find(|(name, _, _)| *name == key).unwrap();
        measure.2(&ShownRun::new(&run, |_| WatcherState::Unknown)).shown()
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
            "busy, memory of the card up to 900 MB of 2.0 GB,",
        );
    }
}
