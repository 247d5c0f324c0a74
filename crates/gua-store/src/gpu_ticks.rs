//! Counts the GPU readings stored in a history. Closed quarter hours are counted from their totals, which remain when
//! retention deletes the ticks; only later ticks are read one by one.

use gua_model::accounted;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::store::{meta, quarter};
use crate::ticks::{self, Ticks};
use crate::totals;

impl History {
    /// Number of GPU readings ever stored: one per GPU and tick, including imported rows. Damaged ticks are not
    /// counted, nor a parent in MIG mode whose instances have all of its slices, as in reports.
    pub fn gpu_ticks(&self) -> Result<u64, ReadError> {
        self.read(|connection| {
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            Ok(imported(connection)? + closed(connection, until)? + open(connection, until)?)
        })
    }
}

fn imported(connection: &Connection) -> rusqlite::Result<u64> {
    let rows: Option<i64> =
        connection.query_row("SELECT sum(rows) FROM old_card_block", [], |row| row.get(0))?;
    Ok(rows.unwrap_or(0).unsigned_abs())
}

fn closed(connection: &Connection, until: i64) -> Result<u64, ReadError> {
    let mut found = 0;
    totals::each(
        connection,
        totals::Source::Own,
        (i64::MIN, quarter(until)),
        |_, cards| {
            found += cards
                .iter()
                .map(|card| card.total.counted_ticks())
                .sum::<u64>();
        },
    )?;
    Ok(found)
}

fn open(connection: &Connection, until: i64) -> Result<u64, ReadError> {
    let mut statement = ticks::statement(connection)?;
    let mut stored = Ticks::new(connection, &mut statement, until, i64::MAX)?;
    let mut found = 0;
    while let Some((_, tick)) = stored.step()? {
        found += tick.map_or(0, |stored| accounted(&stored.tick.sample.gpus) as u64);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_model::{Driver, Gpu, Missing, Place, Sample, Slice, Tick};
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::{NewRun, OpenMode, Store, WriterOptions};

    #[test]
    fn a_divided_gpu_counts_the_same_before_and_after_its_quarter_closes() {
        let gpu = |uuid: &str, place: Place| Gpu {
            place,
            ..Gpu::without_readings(uuid.parse().unwrap(), 0, Missing::Unsupported)
        };
        let part = |uuid: &str, slices: u32| {
            let place = Place::Instance {
                parent: "GPU-0".parse().unwrap(),
                gpu_instance: Err(Missing::Unsupported),
                compute_instance: Err(Missing::Unsupported),
                slice: Ok(Slice { slices, of: 7 }),
            };
            gpu(uuid, place)
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let started = Timestamp::from_second(1_800_000_000).unwrap();
        let interval = Duration::from_secs(60);
        let run = store
            .begin_run(&NewRun {
                started,
                interval,
                host: "h".to_owned(),
                version: "0".to_owned(),
                boot: None,
            })
            .unwrap();
        let at = |minute: i64| started + SignedDuration::from_mins(minute);
        for minute in 0..20 {
            let sample = Sample {
                at: at(minute),
                since_boot: Duration::from_secs(60 * minute.unsigned_abs()),
                boot: Err(Missing::Unsupported),
                driver: Driver {
                    version: Err(Missing::Unsupported),
                    cuda: Err(Missing::Unsupported),
                },
                gpus: vec![
                    gpu("GPU-0", Place::Parent { instances: 2 }),
                    part("MIG-a", 4),
                    part("MIG-b", 3),
                    gpu("GPU-1", Place::Whole),
                ],
                problems: Vec::new(),
            };
            store.record(run, &Tick { sample, interval }).unwrap();
        }
        let rows = || History::open(&path).unwrap().gpu_ticks().unwrap();
        assert_eq!(rows(), 3 * 20);
        while store.maintain(at(120)).unwrap().more {}
        assert_eq!(rows(), 3 * 20);
    }
}
