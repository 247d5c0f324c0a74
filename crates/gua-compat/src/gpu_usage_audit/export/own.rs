//! Converts ticks of gua to rows of gpu-usage-audit.

use std::collections::HashMap;

use gua_model::usage_state::{UsageState, UsageTracker};
use gua_model::{Gpu, Period, Pid, Process, ProcessKind, Tick, sane};
use gua_store::imported::{GpuRow, LegacyError, ProcessRow, SmallTable, Texts, old_text};
use gua_store::{History, ReadError, RunId, RunInfo};
use rusqlite::types::Value;
use rusqlite::{Statement, Transaction};

use super::part::Part;
use super::{Export, insert_sql, write_row};

/// Number of earlier ticks that a state can depend on. After ten ticks with a reading, earlier ones have no influence;
/// this is larger, since readings can be missing.
const REMEMBERED_TICKS: u32 = 40;
const MIN_REMEMBERED_MICROS: i64 = 3_600_000_000;

/// Number of ticks that will be written.
pub(super) fn count(history: &History) -> Result<u64, LegacyError> {
    Ok(history.info()?.ticks)
}

impl Export<'_> {
    /// Writes the runs, and the GPUs of ticks that are not written.
    pub(super) fn own_lists(&mut self, history: &History) -> Result<(), LegacyError> {
        for run in history.runs()? {
            self.run_row(&run)?;
        }
        let mut failed = Ok(());
        // The last tick of a GPU takes precedence.
        let read = history.ticks_at_ends(is_listed, |tick| {
            let at = old_text(tick.sample.at);
            for gpu in &tick.sample.gpus {
                if failed.is_ok() {
                    failed = self.device_row(gpu, &at);
                }
            }
        })?;
        failed?;
        self.advance(read)
    }

    pub(super) fn own_ticks(&mut self, history: &History) -> Result<(), LegacyError> {
        let mut hosts: HashMap<RunId, String> = HashMap::new();
        let runs = history.runs()?;
        let window = self.part.window();
        let remembered = remembered(&runs);
        for run in runs {
            if self.part.has_lists() {
                self.run_row(&run)?;
            }
            hosts.insert(run.id, run.host);
        }
        let mut writer = Writer::new(self.change)?;
        let begin = sane::nearest(window.0.saturating_sub(remembered));
        let window_end = sane::nearest(window.1);
        history.ticks(Period::new(begin, window_end), |stored| {
            let stored = match stored {
                Ok(stored) => stored,
                Err(ReadError::Tick { .. }) => {
                    self.exported.damaged_ticks += 1;
                    return Ok(());
                }
                Err(error) => return Err(LegacyError::from(error)),
            };
            if stored.tick.sample.at.as_microsecond() < window.0 {
                let tracker = writer.trackers.entry(Some(stored.run)).or_default();
                stored.tick.sample.gpus.iter().for_each(|gpu| {
                    tracker.see(gpu);
                });
                return Ok(());
            }
            let host = hosts.get(&stored.run).map(String::as_str);
            self.own_tick(Some(stored.run), &stored.tick, host, &mut writer)
        })?;
        self.exported.damaged_ticks += u64::from(match self.part {
            Part::Everything => history.absurd_ticks()?,
            Part::Rows(..) | Part::Lists => 0,
        });
        Ok(())
    }

    pub(super) fn run_row(&mut self, run: &RunInfo) -> Result<(), LegacyError> {
        self.exported.runs += 1;
        let cells = [
            old_text(run.started).into(),
            run.interval.as_secs_f64().into(),
        ];
        let number = run.id.0.saturating_add(self.own_offset);
        self.insert(SmallTable::RUN, Some(number), &cells)
    }

    /// Writes the rows of one tick, whose collector ran on a host of this name. A tick whose run is not known has rows
    /// without a run.
    pub(super) fn own_tick(
        &mut self,
        run: Option<RunId>,
        tick: &Tick,
        host: Option<&str>,
        writer: &mut Writer<'_>,
    ) -> Result<(), LegacyError> {
        if let (Some(host), Part::Everything) = (host, self.part) {
            self.host_row(host, tick)?;
        }
        let sample = &tick.sample;
        let at = old_text(sample.at);
        let number = run.map(|run| run.0.saturating_add(self.own_offset));
        let Writer {
            gpus,
            processes,
            texts,
            trackers,
        } = writer;
        let tracker = trackers.entry(run).or_default();
        for gpu in &sample.gpus {
            let state = tracker.see(gpu);
            if self.part.has_lists() {
                self.device_row(gpu, &at)?;
            }
            let Some(row) = gpu_row(gpu, state, texts) else {
                self.exported.gpus_without_util += 1;
                continue;
            };
            self.exported.gpu_rows += 1;
            write_row(gpus, (None, &at, number), &row, texts)?;
        }
        for gpu in sample.gpus.iter().filter(|gpu| gpu.util.is_ok()) {
            for process in &gpu.processes {
                let row = process_row(gpu, process, texts);
                self.exported.process_rows += 1;
                write_row(processes, (None, &at, number), &row, texts)?;
            }
        }
        self.advance(1)
    }

    fn host_row(&mut self, host: &str, tick: &Tick) -> Result<(), LegacyError> {
        let at = Value::from(old_text(tick.sample.at));
        let driver = tick.sample.driver.version.clone().ok();
        let (host, environment) = (host.to_owned().into(), "bare".to_owned().into());
        let cells = [host, environment, driver.into(), at.clone(), at];
        self.insert_or_extend(SmallTable::HOST, &cells, &["driver_version"])
    }

    fn device_row(&mut self, gpu: &Gpu, at: &str) -> Result<(), LegacyError> {
        let (true, Ok(name), Ok(total)) = (is_listed(gpu), &gpu.name, gpu.memory_total) else {
            return Ok(());
        };
        let cells = [
            gpu.uuid.as_str().to_owned().into(),
            name.clone().into(),
            whole(total.whole_mb()).into(),
            at.to_owned().into(),
            at.to_owned().into(),
        ];
        self.insert_or_extend(SmallTable::DEVICE, &cells, &["name", "memory_total_mb"])
    }
}

/// Statements that insert rows, the texts of these rows, and the states of the GPUs in each run.
pub(super) struct Writer<'a> {
    gpus: Statement<'a>,
    processes: Statement<'a>,
    texts: Texts,
    trackers: HashMap<Option<RunId>, UsageTracker>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(change: &'a Transaction<'_>) -> Result<Self, LegacyError> {
        Ok(Self {
            gpus: change.prepare(&insert_sql::<GpuRow>())?,
            processes: change.prepare(&insert_sql::<ProcessRow>())?,
            texts: Texts::default(),
            trackers: HashMap::new(),
        })
    }
}

/// The row of a GPU; `None` without a utilisation.
fn gpu_row(gpu: &Gpu, state: Option<UsageState>, texts: &mut Texts) -> Option<GpuRow> {
    Some(GpuRow {
        gpu: texts.id(gpu.uuid.as_str()),
        util_pct: gpu.util.ok()?.get().into(),
        usage_state: state.map(|state| texts.id(state.as_str())),
        gpu_index: Some(gpu.index.into()),
        memory_used_mb: gpu.memory_used.ok().map(|used| whole(used.whole_mb())),
        temperature_c: gpu.temperature.ok().map(|degrees| degrees.0.into()),
        power_w: gpu.power.ok().map(|power| whole(power.0 / 1_000)),
    })
}

fn process_row(gpu: &Gpu, process: &Process, texts: &mut Texts) -> ProcessRow {
    let identity = process.identity.as_ref().ok();
    let login = identity.and_then(|identity| identity.login.as_ref().ok()?.as_ref());
    let own = identity.and_then(|identity| identity.own.as_ref().ok());
    // A view that hides a process leaves one name of its owner, which the tool shows if it is the login user.
    let login = login.or(own.filter(|_| process.pid == Pid(0)));
    let comm = identity.and_then(|identity| identity.comm.as_deref().ok());
    let uuid = texts.id(gpu.uuid.as_str());
    let mut text = |text: Option<&str>| text.map(|text| texts.id(text));
    ProcessRow {
        gpu: uuid,
        pid: process.pid.0.into(),
        mem_used_mb: process.memory.ok().map(|memory| whole(memory.whole_mb())),
        gpu_index: Some(gpu.index.into()),
        loginuid_user: text(login.and_then(|user| user.name.as_deref())),
        owner_user: text(own.and_then(|user| user.name.as_deref())),
        process_name: text(comm.filter(|comm| !comm.is_empty())),
        process_type: match process.kind {
            ProcessKind::Compute | ProcessKind::Both => None,
            ProcessKind::Graphics => text(Some("graphics")),
        },
    }
}

/// Returns whether gpu-usage-audit would list the GPU: it has a name, a memory size and a utilisation.
fn is_listed(gpu: &Gpu) -> bool {
    gpu.name.is_ok() && gpu.memory_total.is_ok() && gpu.util.is_ok()
}

/// Time before a window for which ticks are read, in microseconds.
fn remembered(runs: &[RunInfo]) -> i64 {
    let longest = runs
        .iter()
        .map(|run| run.interval)
        .max()
        .unwrap_or_default();
    let micros = (longest * REMEMBERED_TICKS).as_micros();
    i64::try_from(micros).map_or(i64::MAX, |micros| micros.max(MIN_REMEMBERED_MICROS))
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
