//! Finds the first and the last tick of each GPU. Quarter hours without the GPU are skipped using their totals, so that
//! a long history takes little more time than a short one.

use std::collections::{HashMap, HashSet};

use gua_model::{Gpu, GpuUuid, Quarter};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::fold::{tick_before, tick_from};
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::store::{meta, quarter};
use crate::ticks::{self, MICROS_PER_QUARTER, Ticks};
use crate::totals;

/// A GPU as one tick saw it.
#[derive(Clone, Debug)]
pub struct Sight {
    pub at: Timestamp,
    pub gpu: Gpu,
}

/// The first and the last sight of each GPU, in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct Ends {
    pub firsts: Vec<Sight>,
    pub lasts: Vec<Sight>,
    /// Number of ticks that were read.
    pub ticks: u64,
}

impl History {
    /// The first and the last tick of each GPU that `is_wanted` accepts.
    pub fn sights(&self, is_wanted: fn(&Gpu) -> bool) -> Result<Ends, ReadError> {
        let cards: HashSet<GpuUuid> = self.cards()?.into_iter().map(|card| card.uuid).collect();
        self.read(|connection| {
            let mut ends = Ends::default();
            ends.look_forward(connection, cards, is_wanted)?;
            ends.look_back(connection, is_wanted)?;
            Ok(ends)
        })
    }
}

impl Ends {
    fn look_forward(
        &mut self,
        connection: &Connection,
        mut sought: HashSet<GpuUuid>,
        is_wanted: fn(&Gpu) -> bool,
    ) -> Result<(), ReadError> {
        let mut from = i64::MIN;
        while let (false, Some(first)) = (sought.is_empty(), tick_from(connection, from)?) {
            let begin = ticks::quarter_start(first);
            from = begin.saturating_add(MICROS_PER_QUARTER);
            let firsts = &mut self.firsts;
            self.ticks += look(connection, begin, (&sought.clone(), is_wanted), |sight| {
                if sought.remove(&sight.gpu.uuid) {
                    firsts.push(sight);
                }
            })?;
        }
        Ok(())
    }

    fn look_back(
        &mut self,
        connection: &Connection,
        is_wanted: fn(&Gpu) -> bool,
    ) -> Result<(), ReadError> {
        let mut sought: HashSet<GpuUuid> = uuids(&self.firsts).collect();
        let mut to = i64::MAX;
        while let (false, Some(last)) = (sought.is_empty(), tick_before(connection, to)?) {
            to = ticks::quarter_start(last);
            let mut lasts: HashMap<GpuUuid, Sight> = HashMap::new();
            self.ticks += look(connection, to, (&sought, is_wanted), |sight| {
                lasts.insert(sight.gpu.uuid.clone(), sight);
            })?;
            sought.retain(|uuid| !lasts.contains_key(uuid));
            self.lasts.extend(lasts.into_values());
        }
        Ok(())
    }
}

fn uuids(sights: &[Sight]) -> impl Iterator<Item = GpuUuid> {
    sights.iter().map(|sight| sight.gpu.uuid.clone())
}

/// Calls the callback with each sight of the wanted GPUs in one quarter hour, and returns the number of ticks read.
fn look(
    connection: &Connection,
    begin: i64,
    (sought, is_wanted): (&HashSet<GpuUuid>, fn(&Gpu) -> bool),
    mut give: impl FnMut(Sight),
) -> Result<u64, ReadError> {
    let mut looked_at = 0;
    if !may_have(connection, begin, sought)? {
        return Ok(looked_at);
    }
    let mut statement = ticks::statement(connection)?;
    let end = begin.saturating_add(MICROS_PER_QUARTER);
    for stored in Ticks::new(connection, &mut statement, begin, end)? {
        let tick = match stored {
            Ok(stored) => stored.tick,
            Err(ReadError::Tick { .. }) => continue,
            Err(error) => return Err(error),
        };
        looked_at += 1;
        let at = tick.sample.at;
        for gpu in tick.sample.gpus {
            if sought.contains(&gpu.uuid) && is_wanted(&gpu) {
                give(Sight { at, gpu });
            }
        }
    }
    Ok(looked_at)
}

/// Returns whether a quarter hour may contain a wanted GPU. A quarter without readable totals may.
fn may_have(
    connection: &Connection,
    begin: i64,
    sought: &HashSet<GpuUuid>,
) -> Result<bool, ReadError> {
    let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
    if begin.saturating_add(MICROS_PER_QUARTER) > until {
        return Ok(true);
    }
    let number = quarter(begin);
    let totals = totals::readable(connection, (number, number + 1))?;
    let Some(cards) = totals.quarters.get(&Quarter(number)) else {
        return Ok(true);
    };
    // Excluded time (`set_aside`) has no sum of its utilisation.
    let is_told = |uuid: &GpuUuid| {
        cards.get(uuid).is_some_and(|total| {
            total.card.ticks > 0 && (total.card.util_known.0 > 0 || total.card.set_aside.0 > 0)
        })
    };
    Ok(sought.iter().any(is_told))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use gua_model::{Bytes, Driver, Missing, Percent, Sample, Tick};
    use jiff::SignedDuration;

    use super::*;
    use crate::{NewRun, OpenMode, Store, WriterOptions};

    const TICKS: i64 = 3 * 24 * 60;

    fn gpu(index: u32, util: Option<u32>) -> Gpu {
        let uuid = format!("GPU-{index}").parse().unwrap();
        let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
        gpu.name = Ok(format!("card {index}"));
        gpu.memory_total = Ok(Bytes::from_mb(1000));
        gpu.util = util.and_then(Percent::new).ok_or(Missing::Unsupported);
        gpu
    }

    /// Writes three days with a tick per minute. The second GPU is present for part of the second day; the third has no
    /// utilisation.
    fn write(path: &Path, first: Timestamp) {
        let mut store = Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: first,
            interval: Duration::from_secs(60),
            host: "node07".to_owned(),
            version: "0.1.0".to_owned(),
            boot: None,
        };
        let run = store.begin_run(&run).unwrap();
        for minute in 0..TICKS {
            let mut gpus = vec![gpu(0, Some(5)), gpu(2, None)];
            if (1500..1540).contains(&minute) {
                gpus.insert(1, gpu(1, Some(7)));
            }
            let sample = Sample {
                at: first + SignedDuration::from_mins(minute),
                since_boot: Duration::from_secs(minute.unsigned_abs() * 60),
                boot: Err(Missing::Unsupported),
                driver: Driver {
                    version: Err(Missing::Unsupported),
                    cuda: Err(Missing::Unsupported),
                },
                gpus,
                problems: Vec::new(),
            };
            let interval = Duration::from_secs(60);
            store.record(run, &Tick { sample, interval }).unwrap();
        }
        while store.maintain(Timestamp::MAX).unwrap().more {}
        store.close().unwrap();
    }

    #[test]
    fn the_ends_of_each_gpu_are_found_without_reading_all_ticks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let first: Timestamp = "2026-11-14T00:00:00Z".parse().unwrap();
        write(&path, first);
        let ends = History::open(&path)
            .unwrap()
            .sights(|gpu| gpu.util.is_ok())
            .unwrap();
        let minutes = |sights: &[Sight]| {
            let minute = |at: Timestamp| (at.as_second() - first.as_second()) / 60;
            let mut found: Vec<(u32, i64)> = sights
                .iter()
                .map(|sight| (sight.gpu.index, minute(sight.at)))
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(minutes(&ends.firsts), [(0, 0), (1, 1500)]);
        assert_eq!(minutes(&ends.lasts), [(0, TICKS - 1), (1, 1539)]);
        // Two quarter hours per GPU, and the quarters without totals.
        assert!(ends.ticks < 200, "{} of {TICKS} ticks", ends.ticks);
    }
}
