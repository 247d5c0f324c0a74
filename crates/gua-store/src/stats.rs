//! `gua db stats`: size of each table and growth rate. Also counts the GPU readings.

use gua_model::{accounted, sane};
use gua_query::records::Origin;
use jiff::Timestamp;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::files::length;
use crate::fold::{each_tick, tick_before, tick_from};
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::sql;
use crate::store::{meta, quarter};
use crate::totals;

/// The size of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Size of the file and its journal.
    pub file_bytes: u64,
    pub journal_bytes: u64,
    /// Size of the free pages in the file.
    pub free_bytes: u64,
    /// Tables with their indexes, the largest first.
    pub tables: Vec<TableSize>,
    pub ticks: u64,
    pub gpus: u64,
    pub first_tick: Option<Timestamp>,
    pub last_tick: Option<Timestamp>,
    pub imported: OldRows,
    /// Days from the first tick to the last.
    pub days: f64,
    /// Excludes imported rows; `None` until the history spans an hour.
    pub bytes_per_gpu_day: Option<f64>,
    pub bytes_per_day: Option<f64>,
}

/// Rows imported from old histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OldRows {
    pub files: u64,
    pub gpu_rows: u64,
    pub process_rows: u64,
    /// Size of their tables.
    pub bytes: u64,
}

/// Size of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableSize {
    pub name: String,
    pub bytes: u64,
    pub rows: u64,
}

impl TableSize {
    /// Returns whether the table holds imported rows.
    fn is_old(&self) -> bool {
        self.name.starts_with("old_")
    }
}

impl History {
    pub fn stats(&self) -> Result<Stats, ReadError> {
        self.read(|connection| {
            let number = |query: &str| -> rusqlite::Result<u64> {
                let found: Option<i64> = sql::value(connection, query, [])?;
                Ok(found.unwrap_or(0).unsigned_abs())
            };
            let tables = tables(connection)?;
            let first = tick_from(connection, i64::MIN)?;
            let last = tick_before(connection, i64::MAX)?;
            let micros = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
            let gpus = number("SELECT count(*) FROM card")?;
            let room = |is_old: bool| -> u64 {
                let some = tables.iter().filter(|table| is_old == table.is_old());
                some.map(|table| table.bytes).sum()
            };
            let used = room(false);
            let imported = OldRows {
                files: number("SELECT count(*) FROM old_source")?,
                gpu_rows: number("SELECT sum(rows) FROM old_card_block")?,
                process_rows: number("SELECT sum(rows) FROM old_process_block")?,
                bytes: room(true),
            };
            #[expect(clippy::cast_precision_loss, reason = "sizes and times to look at")]
            let (days, used, per_gpus) =
                (micros as f64 / 86_400e6, used as f64, gpus.max(1) as f64);
            let enough = days > 1.0 / 24.0;
            Ok(Stats {
                file_bytes: length(self.path(), ""),
                journal_bytes: length(self.path(), "-wal"),
                free_bytes: number("PRAGMA freelist_count")? * number("PRAGMA page_size")?,
                tables,
                ticks: number("SELECT count(*) FROM tick")?,
                gpus,
                imported,
                first_tick: first.map(sane::nearest),
                last_tick: last.map(sane::nearest),
                days,
                bytes_per_gpu_day: enough.then_some(used / days / per_gpus),
                bytes_per_day: enough.then_some(used / days),
            })
        })
    }

    /// Number of GPU readings ever stored: one per GPU and tick, including imported rows. Damaged ticks are not counted, nor
    /// a parent in MIG mode whose instances have all of its slices, as in reports. Closed quarter hours are counted from
    /// their totals, which remain when retention deletes the ticks; only later ticks are read one by one.
    pub fn gpu_ticks(&self) -> Result<u64, ReadError> {
        self.read(|connection| {
            let imported = "SELECT sum(rows) FROM old_card_block";
            let imported: Option<i64> = sql::value(connection, imported, [])?;
            let mut found = imported.unwrap_or(0).unsigned_abs();
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let closed = (i64::MIN, quarter(until));
            totals::each(connection, Origin::Own, closed, |_, gpus| {
                let ticks = gpus.iter().map(|gpu| gpu.total.counted_ticks());
                found += ticks.sum::<u64>();
            })?;
            each_tick(connection, (until, i64::MAX), |_, tick| {
                found += tick.map_or(0, |stored| accounted(&stored.tick.sample.gpus) as u64);
            })?;
            Ok(found)
        })
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<TableSize>> {
    let sql = "SELECT tbl_name, sum(pgsize) FROM dbstat('main', 1) JOIN sqlite_schema USING (name)
         GROUP BY tbl_name ORDER BY 2 DESC, 1";
    sql::rows(connection, sql, [], |row| {
        let name: String = row.get(0)?;
        // The name comes from the schema; it is quoted as a precaution.
        let query = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        let count: i64 = sql::value(connection, &query, [])?;
        Ok(TableSize {
            name,
            bytes: row.get::<_, i64>(1)?.unsigned_abs(),
            rows: count.unsigned_abs(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_model::{Driver, Gpu, Missing, Place, Sample, Slice, Tick};
    use jiff::SignedDuration;

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
