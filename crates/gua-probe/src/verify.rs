//! Comparison of gua's readings with those of `nvidia-smi` on the same host, for `gua verify`.
//!
//! Readings change all the time, so each round asks `nvidia-smi` between two samples of gua. A value agrees if it lies between
//! the two samples, or outside of them by no more than a tolerance, which the report states. The result contains no names, UUIDs
//! or process IDs, so that it can be shared.

mod columns;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use gua_model::{Gpu, Pid, Place, Reading, Sample};

use self::columns::{COLUMNS, Column, Query, parse};
use crate::clock;
use crate::doctor::program::{self, End, Run};
use crate::fault::DriverFault;

/// Maximum time for one answer of `nvidia-smi`.
const LIMIT: Duration = Duration::from_secs(30);
/// Part of the comparisons of a moving reading that may differ: one in ten.
const MAY_DIFFER: u32 = 10;

/// Why readings cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("nvidia-smi was not found in PATH")]
    NotFound,
    #[error("nvidia-smi failed: {0}")]
    Failed(String),
    /// It exited with an error, for example because it does not know a query.
    #[error("nvidia-smi failed: {0}")]
    Refused(String),
    #[error("{0}")]
    Driver(#[from] DriverFault),
}

/// Length and pace of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub length: Duration,
    pub interval: Duration,
}

/// Result of all rounds.
#[derive(Debug, Default)]
pub struct Verification {
    rounds: u32,
    gpus: BTreeSet<String>,
    driver: Option<String>,
    columns: BTreeMap<&'static str, Tally>,
    /// Columns that this nvidia-smi does not know.
    unknown: BTreeSet<&'static str>,
    /// GPUs that only one of the two lists.
    gpus_only_in_smi: u32,
    gpus_only_in_gua: u32,
    processes_only_in_smi: u32,
    processes_only_in_gua: u32,
    process_memory: Tally,
}

/// Comparisons of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    agree: u32,
    differ: u32,
    only_in_gua: u32,
    only_in_smi: u32,
    /// The first difference, in words.
    example: Option<String>,
}

/// Compares for the given time. `sample` reads the driver as every command of gua does.
///
/// # Errors
/// If nvidia-smi or the driver cannot be asked at all.
pub fn verify(
    program: &Path,
    pace: Pace,
    mut sample: impl FnMut() -> Result<Sample, DriverFault>,
) -> Result<Verification, VerifyError> {
    let mut found = Verification::default();
    let end = clock::monotonic() + pace.length;
    loop {
        let before = sample()?;
        let rows = found.gpu_rows(program)?;
        let apps = ask(
            program,
            &["--query-compute-apps=gpu_uuid,pid,used_gpu_memory"],
        )?;
        let after = sample()?;
        found.add(&before, &rows, &apps, &after);
        let left = end.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Ok(found);
        }
        std::thread::sleep(pace.interval.min(left));
    }
}

/// Runs nvidia-smi with a query and returns its lines as cells.
fn ask(program: &Path, query: &[&str]) -> Result<Vec<Vec<String>>, VerifyError> {
    let arguments = [query, &["--format=csv,noheader,nounits"]].concat();
    let run = program::ask(program.to_owned(), &arguments, LIMIT).ok_or(VerifyError::NotFound)?;
    let Run {
        end,
        stdout,
        stderr,
        ..
    } = run;
    let said = || {
        let said = [stdout.trim(), stderr.trim()].join(" ");
        said.trim().lines().next().unwrap_or_default().to_owned()
    };
    match end {
        End::Code(0) => {}
        End::Code(code) => {
            return Err(VerifyError::Refused(format!(
                "exit code {code}: {}",
                said()
            )));
        }
        End::TimedOut(_) => return Err(VerifyError::Failed("no answer in time".to_owned())),
        End::NotStarted(why) => return Err(VerifyError::Failed(why)),
    }
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect();
    let lines = stdout.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(cells).collect())
}

impl Verification {
    /// Returns a row for each GPU: its UUID and the cells of all columns.
    fn gpu_rows(&mut self, program: &Path) -> Result<Vec<Vec<String>>, VerifyError> {
        let mut rows = self.answers(program, Query::Gpu)?;
        let remapped = self.answers(program, Query::RemappedRows)?;
        for row in &mut rows {
            let same = remapped.iter().find(|other| other.first() == row.first());
            row.extend(same.iter().flat_map(|cells| cells.iter().skip(1).cloned()));
        }
        Ok(rows)
    }

    /// Asks for the columns of a query. A column that this nvidia-smi does not know is left out from then on.
    fn answers(&mut self, program: &Path, query: Query) -> Result<Vec<Vec<String>>, VerifyError> {
        loop {
            let columns = self.asked().filter(|column| column.asked_by == query);
            let names: Vec<&str> = columns.map(|column| column.query).collect();
            if names.is_empty() {
                return Ok(Vec::new());
            }
            let option = format!("{},{}", query.option(), names.join(","));
            match ask(program, &[&option]) {
                Err(VerifyError::Refused(why)) => {
                    // Field "memory.reserved" is not a valid field to query.
                    let named = |name: &&&str| why.contains(&format!("\"{name}\""));
                    match (names.iter().find(named), query) {
                        (Some(name), _) => self.unknown.insert(name),
                        // An nvidia-smi that is older than row remapping does not know the query.
                        (None, Query::RemappedRows) => {
                            self.unknown.extend(names);
                            continue;
                        }
                        (None, Query::Gpu) => return Err(VerifyError::Refused(why)),
                    };
                }
                other => return other,
            }
        }
    }

    fn asked(&self) -> impl Iterator<Item = &'static Column> {
        let asked = |column: &&Column| !self.unknown.contains(column.query);
        COLUMNS.iter().filter(asked)
    }

    /// Adds a round.
    fn add(&mut self, before: &Sample, rows: &[Vec<String>], apps: &[Vec<String>], after: &Sample) {
        self.rounds += 1;
        self.driver = before.driver.version.clone().ok();
        let columns: Vec<&Column> = self.asked().collect();
        let mut listed = BTreeSet::new();
        for row in rows {
            let Some((uuid, cells)) = row.split_first() else {
                continue;
            };
            listed.insert(uuid.as_str());
            let (Some(before), Some(after)) = (find(before, uuid), find(after, uuid)) else {
                self.gpus_only_in_smi += 1;
                continue;
            };
            self.gpus.insert(uuid.clone());
            for (column, cell) in columns.iter().zip(cells) {
                let ours = [before, after].map(|gpu| column.number(gpu));
                let tally = self.columns.entry(column.query).or_default();
                tally.add(column, parse(cell, column.scale), ours);
            }
        }
        let whole = before.gpus.iter().filter(|gpu| is_physical(gpu));
        let missing = whole.filter(|gpu| !listed.contains(gpu.uuid.as_str()));
        self.gpus_only_in_gua += u32::try_from(missing.count()).unwrap_or(u32::MAX);
        self.add_processes(before, apps, after);
    }

    fn add_processes(&mut self, before: &Sample, apps: &[Vec<String>], after: &Sample) {
        let (before, after) = (computing(before), computing(after));
        let mut listed = BTreeSet::new();
        for app in apps {
            let [uuid, pid, memory] = app.as_slice() else {
                continue;
            };
            let Ok(pid) = pid.parse().map(Pid) else {
                continue;
            };
            let key = (uuid.clone(), pid);
            match (before.get(&key), after.get(&key)) {
                (None, None) => self.processes_only_in_smi += 1,
                (one, other) => {
                    let known = one.or(other).copied();
                    let ours = [one, other].map(|memory| memory.copied().or(known));
                    let ours = ours.map(|memory| memory.unwrap_or(Err(gua_model::Missing::Gone)));
                    let column = &columns::PROCESS_MEMORY;
                    self.process_memory
                        .add(column, parse(memory, column.scale), ours);
                }
            }
            listed.insert(key);
        }
        // A process that began or ended during the round may be missing.
        let stayed = before.keys().filter(|key| after.contains_key(*key));
        let missing = stayed.filter(|key| !listed.contains(*key)).count();
        self.processes_only_in_gua += u32::try_from(missing).unwrap_or(u32::MAX);
    }

    /// Reports whether everything agrees: no reading, GPU or process that nvidia-smi shows is missing or different.
    pub fn agrees(&self) -> bool {
        let has = |verdict: Verdict| {
            COLUMNS.iter().any(|column| {
                let tally = self.columns.get(column.query);
                tally.is_some_and(|tally| tally.verdict(column) == verdict)
            })
        };
        has(Verdict::Agrees)
            && !has(Verdict::Differs)
            && self.gpus_only_in_smi == 0
            && self.gpus_only_in_gua == 0
            && self.processes_only_in_smi == 0
            && self.process_memory.verdict(&columns::PROCESS_MEMORY) != Verdict::Differs
    }

    /// Returns the report. It has no names, UUIDs and process IDs.
    pub fn text(&self, version: &str) -> String {
        let mut out = String::new();
        let driver = self.driver.as_deref().unwrap_or("unknown");
        let _ = writeln!(
            out,
            "gua {version}, driver {driver}: {} GPUs compared with nvidia-smi in {} rounds\n",
            self.gpus.len(),
            self.rounds
        );
        let _ = writeln!(
            out,
            "{:<38} {:<28} {:<12} {:>6} {:>7}  tolerance",
            "nvidia-smi", "gua", "result", "agree", "differ"
        );
        for column in COLUMNS {
            let tally = self.columns.get(column.query);
            tally.cloned().unwrap_or_default().write(&mut out, column);
        }
        self.process_memory
            .write(&mut out, &columns::PROCESS_MEMORY);
        for (number, what) in [
            (self.gpus_only_in_smi, "GPUs are listed by nvidia-smi only"),
            (self.gpus_only_in_gua, "GPUs are listed by gua only"),
            (
                self.processes_only_in_smi,
                "processes are listed by nvidia-smi only",
            ),
            (
                self.processes_only_in_gua,
                "processes are listed by gua only",
            ),
        ] {
            if number > 0 {
                let _ = writeln!(out, "{number} times: {what}");
            }
        }
        let _ = writeln!(out, "not compared: {}", columns::not_compared().join(", "));
        let verdict = match self.agrees() {
            true => "All compared readings agree.",
            false => "Some readings differ.",
        };
        let _ = writeln!(out, "\n{verdict}");
        out
    }
}

/// Result for one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agrees,
    Differs,
    /// Only gua has a value.
    OnlyGua,
    /// Neither has a value, or it was not compared.
    NoValue,
}

impl Tally {
    /// Adds a comparison with the readings before and after.
    fn add(&mut self, column: &Column, theirs: Option<i64>, ours: [Reading<i64>; 2]) {
        let mut known = ours.iter().filter_map(|reading| reading.as_ref().ok());
        let first = known.next().copied();
        let second = known.next().copied().or(first);
        match (theirs, first.zip(second)) {
            (None, None) => {}
            // A GPU either retires pages or remaps rows. For the other repair, its bit is never set and nvidia-smi has no value.
            (None, Some((0, 0))) if column.bit.is_some() => {}
            (None, Some(_)) => self.only_in_gua += 1,
            (Some(_), None) => self.only_in_smi += 1,
            (Some(theirs), Some((one, other))) => {
                let (low, high) = (one.min(other), one.max(other));
                let slack = column.slack(theirs);
                let (from, to) = (low.saturating_sub(slack), high.saturating_add(slack));
                if (from..=to).contains(&theirs) {
                    self.agree += 1;
                } else {
                    self.differ += 1;
                    let [theirs, low, high] = [theirs, low, high].map(|one| column.shown(one));
                    self.example
                        .get_or_insert_with(|| format!("nvidia-smi {theirs}, gua {low} to {high}"));
                }
            }
        }
    }

    fn verdict(&self, column: &Column) -> Verdict {
        let compared = self.agree + self.differ;
        let allowed = match column.moves.is_some() {
            true => compared / MAY_DIFFER,
            false => 0,
        };
        match self {
            _ if self.differ > allowed || self.only_in_smi > 0 => Verdict::Differs,
            _ if compared > 0 => Verdict::Agrees,
            _ if self.only_in_gua > 0 => Verdict::OnlyGua,
            _ => Verdict::NoValue,
        }
    }

    fn write(&self, out: &mut String, column: &Column) {
        let result = match self.verdict(column) {
            Verdict::Agrees => "agrees",
            Verdict::Differs if self.only_in_smi > 0 => "not in gua",
            Verdict::Differs => "DIFFERS",
            Verdict::OnlyGua => "only in gua",
            Verdict::NoValue => "no value",
        };
        let _ = writeln!(
            out,
            "{:<38} {:<28} {result:<12} {:>6} {:>7}  {}",
            column.query,
            column.reading.label,
            self.agree,
            self.differ,
            column.tolerance()
        );
        if let Some(example) = &self.example {
            let _ = writeln!(out, "    for example: {example}");
        }
    }
}

fn is_physical(gpu: &Gpu) -> bool {
    !matches!(gpu.place, Place::Instance { .. })
}

fn find<'s>(sample: &'s Sample, uuid: &str) -> Option<&'s Gpu> {
    sample.gpus.iter().find(|gpu| gpu.uuid.as_str() == uuid)
}

/// Returns the memory of each compute process, by the UUID of its physical GPU or of its MIG instance.
fn computing(sample: &Sample) -> BTreeMap<(String, Pid), Reading<i64>> {
    let mut found = BTreeMap::new();
    for gpu in &sample.gpus {
        let processes = gpu.processes.iter();
        found.extend(processes.filter(|one| one.kind.computes()).map(|process| {
            let memory = process
                .memory
                .map(|bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX));
            ((gpu.uuid.to_string(), process.pid), memory)
        }));
    }
    found
}

#[cfg(test)]
mod tests;
