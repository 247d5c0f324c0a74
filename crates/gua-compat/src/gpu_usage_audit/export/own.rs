//! Converts ticks of gua to rows of gpu-usage-audit.

use std::collections::HashMap;

use gua_model::usage_state::{UsageState, UsageTracker};
use gua_model::{Gpu, Period, Process, ProcessKind, Tick, User};
use gua_store::imported::{LegacyError, old_text};
use gua_store::{History, ReadError, RunId, RunInfo, Sight};
use jiff::Timestamp;

use super::part::Part;
use super::{Export, Seen};

/// Number of earlier ticks that a state can depend on. After ten ticks with a reading, earlier ones have no influence;
/// this is larger, since readings can be missing.
const REMEMBERED_TICKS: u32 = 40;
const LEAST_REMEMBERED_MICROS: i64 = 3_600_000_000;

/// Number of ticks that will be written.
pub(super) fn count(history: &History) -> Result<u64, LegacyError> {
    Ok(history.info()?.ticks)
}

impl Export<'_> {
    /// Writes the runs, and the GPUs of ticks that are not written.
    pub(super) fn own_lists(&mut self) -> Result<(), LegacyError> {
        for run in self.history.runs()? {
            self.run_row(&run)?;
        }
        let ends = self.history.sights(is_listed)?;
        // The last tick of a GPU takes precedence.
        for Sight { at, gpu } in ends.firsts.iter().chain(&ends.lasts) {
            self.device_row(gpu, &old_text(*at))?;
        }
        self.advance(ends.ticks)
    }

    pub(super) fn own_ticks(&mut self) -> Result<(), LegacyError> {
        let mut hosts: HashMap<RunId, String> = HashMap::new();
        let runs = self.history.runs()?;
        let window = self.part.window();
        let remembered = remembered(&runs);
        for run in runs {
            if self.part.has_lists() {
                self.run_row(&run)?;
            }
            hosts.insert(run.id, run.host);
        }
        let mut trackers: HashMap<RunId, UsageTracker> = HashMap::new();
        let history = self.history;
        let begin = window.0.saturating_sub(remembered);
        history.ticks(Period::new(nearest(begin), nearest(window.1)), |stored| {
            let stored = match stored {
                Ok(stored) => stored,
                Err(ReadError::Tick { .. }) => {
                    self.exported.damaged_ticks += 1;
                    return Ok(());
                }
                Err(error) => return Err(LegacyError::from(error)),
            };
            let tracker = trackers.entry(stored.run).or_default();
            if stored.tick.sample.at.as_microsecond() < window.0 {
                stored.tick.sample.gpus.iter().for_each(|gpu| {
                    tracker.see(gpu);
                });
                return Ok(());
            }
            self.tick(stored.run, &stored.tick, hosts.get(&stored.run), tracker)?;
            self.advance(1)
        })
    }

    fn run_row(&mut self, run: &RunInfo) -> Result<(), LegacyError> {
        self.exported.runs += 1;
        self.change.execute(
            "INSERT INTO daemon_run (id, started_at, interval_seconds) VALUES (?1, ?2, ?3)",
            (
                run.id.0 + self.numbering.own_offset,
                old_text(run.started),
                run.interval.as_secs_f64(),
            ),
        )?;
        Ok(())
    }

    fn tick(
        &mut self,
        run: RunId,
        tick: &Tick,
        host: Option<&String>,
        tracker: &mut UsageTracker,
    ) -> Result<(), LegacyError> {
        let at = old_text(tick.sample.at);
        if let (Some(host), Part::Everything) = (host, self.part) {
            let driver = tick.sample.driver.version.as_ref().ok();
            self.host_row(host, driver, &at)?;
        }
        for gpu in &tick.sample.gpus {
            let state = tracker.see(gpu);
            if self.part.has_lists() {
                self.device_row(gpu, &at)?;
            }
            self.card_row(run, gpu, state, &at)?;
        }
        for gpu in tick.sample.gpus.iter().filter(|gpu| gpu.util.is_ok()) {
            for process in &gpu.processes {
                self.process_row(run, gpu, process, &at)?;
            }
        }
        Ok(())
    }

    fn host_row(
        &mut self,
        host: &str,
        driver: Option<&String>,
        at: &str,
    ) -> Result<(), LegacyError> {
        let written = match self.hosts.get(host) {
            Some(seen) => self
                .change
                .prepare_cached(
                    "UPDATE host SET driver_version = ifnull(?2, driver_version), \
                     first_seen = min(first_seen, ?3), last_seen = max(last_seen, ?3) WHERE rowid = ?1",
                )
                .and_then(|mut update| update.execute((seen.row, driver, at))),
            None => self
                .change
                .prepare_cached("INSERT INTO host VALUES (?1, 'bare', ?2, ?3, ?3)")
                .and_then(|mut insert| insert.execute((host, driver, at))),
        };
        written?;
        if !self.hosts.contains_key(host) {
            self.hosts.insert(
                host.to_owned(),
                Seen {
                    row: self.change.last_insert_rowid(),
                },
            );
        }
        Ok(())
    }

    /// Adds or updates the row of a GPU, as gpu-usage-audit does.
    fn device_row(&mut self, gpu: &Gpu, at: &str) -> Result<(), LegacyError> {
        let (true, Ok(name), Ok(total)) = (is_listed(gpu), &gpu.name, gpu.memory_total) else {
            return Ok(());
        };
        let total = whole(total.whole_mb());
        let uuid = gpu.uuid.as_str();
        let written = match self.devices.get(uuid) {
            Some(seen) => self
                .change
                .prepare_cached(
                    "UPDATE gpu_device SET name = ?2, memory_total_mb = ?3, \
                     first_seen = min(first_seen, ?4), last_seen = max(last_seen, ?4) WHERE rowid = ?1",
                )
                .and_then(|mut update| update.execute((seen.row, name, total, at))),
            None => self
                .change
                .prepare_cached("INSERT INTO gpu_device VALUES (?1, ?2, ?3, ?4, ?4)")
                .and_then(|mut insert| insert.execute((uuid, name, total, at))),
        };
        written?;
        if !self.devices.contains_key(uuid) {
            self.devices.insert(
                uuid.to_owned(),
                Seen {
                    row: self.change.last_insert_rowid(),
                },
            );
        }
        Ok(())
    }

    fn card_row(
        &mut self,
        run: RunId,
        gpu: &Gpu,
        state: Option<UsageState>,
        at: &str,
    ) -> Result<(), rusqlite::Error> {
        let Ok(util) = gpu.util else {
            self.exported.cards_without_util += 1;
            return Ok(());
        };
        self.exported.card_rows += 1;
        self.change
            .prepare_cached(
                "INSERT INTO gpu_sample (ts, gpu_uuid, util_pct, run_id, usage_state, gpu_index, memory_used_mb, \
                 temperature_c, power_w) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute((
                at,
                gpu.uuid.as_str(),
                util.get(),
                run.0 + self.numbering.own_offset,
                state.map(UsageState::as_str),
                gpu.index,
                gpu.memory_used.ok().map(|used| whole(used.whole_mb())),
                gpu.temperature.ok().map(|degrees| degrees.0),
                gpu.power.ok().map(|power| whole(power.0 / 1_000)),
            ))
            .map(drop)
    }

    fn process_row(
        &mut self,
        run: RunId,
        gpu: &Gpu,
        process: &Process,
        at: &str,
    ) -> Result<(), rusqlite::Error> {
        self.exported.process_rows += 1;
        let identity = process.identity.as_ref().ok();
        let login = identity.and_then(|identity| identity.login.as_ref().ok()?.as_ref());
        let own = identity.and_then(|identity| identity.own.as_ref().ok());
        let name = |user: Option<&User>| user.and_then(|user| user.name.clone());
        let kind = match process.kind {
            ProcessKind::Compute | ProcessKind::Both => "compute",
            ProcessKind::Graphics => "graphics",
        };
        self.change
            .prepare_cached(
                "INSERT INTO proc_sample (ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, run_id, gpu_index, \
                 process_name, process_type) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                at,
                gpu.uuid.as_str(),
                process.pid.0,
                process.memory.ok().map(|memory| whole(memory.whole_mb())),
                name(login),
                name(own),
                run.0 + self.numbering.own_offset,
                gpu.index,
                identity.and_then(|identity| identity.comm.as_ref().ok()).filter(|comm| !comm.is_empty()),
                kind,
            ))
            .map(drop)
    }
}

/// Returns whether gpu-usage-audit would list the GPU: it has a name, a memory size and a utilisation.
fn is_listed(gpu: &Gpu) -> bool {
    gpu.name.is_ok() && gpu.memory_total.is_ok() && gpu.util.is_ok()
}

/// Time from microseconds since 1970, clamped to the valid range.
fn nearest(micros: i64) -> Timestamp {
    let end = match micros < 0 {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    Timestamp::from_microsecond(micros).unwrap_or(end)
}

/// Time before a window for which ticks are read, in microseconds.
fn remembered(runs: &[RunInfo]) -> i64 {
    let longest = runs
        .iter()
        .map(|run| run.interval)
        .max()
        .unwrap_or_default();
    let micros = (longest * REMEMBERED_TICKS).as_micros();
    i64::try_from(micros).map_or(i64::MAX, |micros| micros.max(LEAST_REMEMBERED_MICROS))
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
