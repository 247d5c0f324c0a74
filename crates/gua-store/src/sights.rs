//! Finds the ticks that show the first and the last utilisation of each GPU. The totals show which quarter hours contain them,
//! so that only a few ticks of a long history are read.

use std::collections::{BTreeSet, HashMap, HashSet};

use gua_model::{Gpu, GpuTotal, GpuUuid, Tick};
use gua_query::records::Origin;

use crate::error::ReadError;
use crate::fold::{each_tick, tick_from};
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::store::{meta, quarter};
use crate::ticks::MICROS_PER_QUARTER;
use crate::totals;

impl History {
    /// Calls `each` with the ticks of the quarter hours that have the first or the last tick of a GPU that `is_wanted` accepts, in
    /// order of time. Returns the number of ticks.
    pub fn ticks_at_ends(
        &self,
        is_wanted: fn(&Gpu) -> bool,
        mut each: impl FnMut(&Tick),
    ) -> Result<u64, ReadError> {
        self.read(|connection| {
            let first = tick_from(connection, i64::MIN)?.unwrap_or(i64::MAX);
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let mut candidates: HashMap<GpuUuid, Vec<i64>> = HashMap::new();
            let mut chosen = BTreeSet::new();
            let closed = (quarter(first), quarter(until));
            totals::walk(connection, Origin::Own, closed, |quarter, read| {
                let Ok(gpus) = read else {
                    // A damaged quarter may contain any GPU.
                    chosen.insert(quarter.0);
                    return Ok(());
                };
                for gpu in gpus.iter().filter(|gpu| may_have_util(&gpu.total.gpu)) {
                    let quarters = candidates.entry(gpu.gpu.clone()).or_default();
                    quarters.push(quarter.0);
                }
                Ok(())
            })?;
            // Totals only show that a quarter may have such a tick.
            let mut seen: HashMap<i64, HashSet<GpuUuid>> = HashMap::new();
            for (gpu, quarters) in candidates {
                let mut has = |quarter: i64| -> Result<bool, ReadError> {
                    if let Some(gpus) = seen.get(&quarter) {
                        return Ok(gpus.contains(&gpu));
                    }
                    let mut gpus = HashSet::new();
                    each_tick(connection, span_of(quarter), |_, tick| {
                        let all = tick.iter().flat_map(|stored| &stored.tick.sample.gpus);
                        let wanted = all.filter(|gpu| is_wanted(gpu));
                        gpus.extend(wanted.map(|gpu| gpu.uuid.clone()));
                    })?;
                    let has = gpus.contains(&gpu);
                    seen.insert(quarter, gpus);
                    Ok(has)
                };
                chosen.extend(first_with(quarters.iter(), &mut has)?);
                chosen.extend(first_with(quarters.iter().rev(), &mut has)?);
            }
            let mut read = 0;
            let closed = chosen.into_iter().map(span_of);
            for bounds in closed.chain([(until, i64::MAX)]) {
                each_tick(connection, bounds, |_, tick| {
                    if let Ok(stored) = tick {
                        read += 1;
                        each(&stored.tick);
                    }
                })?;
            }
            Ok(read)
        })
    }
}

fn first_with<'a>(
    quarters: impl Iterator<Item = &'a i64>,
    has: &mut impl FnMut(i64) -> Result<bool, ReadError>,
) -> Result<Option<i64>, ReadError> {
    for quarter in quarters {
        if has(*quarter)? {
            return Ok(Some(*quarter));
        }
    }
    Ok(None)
}

/// Start and end of a quarter hour, in microseconds.
fn span_of(quarter: i64) -> (i64, i64) {
    let start = |quarter: i64| quarter.saturating_mul(MICROS_PER_QUARTER);
    (start(quarter), start(quarter + 1))
}

/// Returns whether some of a GPU's ticks may have a utilisation. No utilisation is summed for excluded time (`set_aside`), so it
/// may hide some.
fn may_have_util(total: &GpuTotal) -> bool {
    total.ticks > 0 && (total.util_known.0 > 0 || total.set_aside.0 > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    use gua_model::{Bytes, Driver, Missing, Percent, Place, Sample};
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::{NewRun, OpenMode, Store, WriterOptions};

    const TICKS: i64 = 3 * 24 * 60;

    fn gpu(index: u32, util: Option<u32>) -> Gpu {
        let uuid = format!("GPU-{index}").parse().unwrap();
        let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
        gpu.name = Ok(format!("GPU {index}"));
        gpu.memory_total = Ok(Bytes::from_mb(1000));
        gpu.util = util.and_then(Percent::new).ok_or(Missing::Unsupported);
        gpu
    }

    /// Writes three days with a tick per minute. The second GPU is present for part of the second day; the third has no
    /// utilisation; the fourth is partitioned into MIG instances after ten hours.
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
            let mut partitioned = gpu(3, (minute < 600).then_some(9));
            if minute >= 600 {
                partitioned.place = Place::Parent { instances: 1 };
            }
            let mut gpus = vec![gpu(0, Some(5)), gpu(2, None), partitioned];
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
        let mut ends: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
        let read = History::open(&path).unwrap().ticks_at_ends(
            |gpu| gpu.util.is_ok(),
            |tick| {
                let minute = (tick.sample.at.as_second() - first.as_second()) / 60;
                for gpu in tick.sample.gpus.iter().filter(|gpu| gpu.util.is_ok()) {
                    ends.entry(gpu.index).or_insert((minute, minute)).1 = minute;
                }
            },
        );
        assert_eq!(ends[&0], (0, TICKS - 1));
        assert_eq!(ends[&1], (1500, 1539));
        assert_eq!(ends[&3], (0, 599));
        assert_eq!(ends.len(), 3);
        // Two quarter hours per GPU, and the quarters without totals.
        let read = read.unwrap();
        assert!(read < 200, "{read} of {TICKS} ticks");
    }
}
