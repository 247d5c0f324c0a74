//! Rows of old files in a common form, and histories into which they were imported.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gua_compat::gpu_usage_audit::{Imported, LegacyError, OldFile};
use gua_model::legacy::old_rule;
use gua_model::report::Sums;
use gua_model::{GpuQuarter, Period, Quarter, RollUp};
use gua_query::Records;
use gua_query::records::Origin;
use gua_store::{History, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

/// Columns of the five tables in the order of a fresh 1.8.0 file.
pub(crate) const TABLES: [(&str, &[&str]); 5] = [
    (
        "host",
        &[
            "hostname",
            "env_kind",
            "driver_version",
            "first_seen",
            "last_seen",
        ],
    ),
    ("daemon_run", &["id", "started_at", "interval_seconds"]),
    (
        "gpu_device",
        &[
            "gpu_uuid",
            "name",
            "memory_total_mb",
            "first_seen",
            "last_seen",
        ],
    ),
    (
        "gpu_sample",
        &[
            "ts",
            "gpu_uuid",
            "util_pct",
            "run_id",
            "usage_state",
            "gpu_index",
            "memory_used_mb",
            "temperature_c",
            "power_w",
        ],
    ),
    (
        "proc_sample",
        &[
            "ts",
            "gpu_uuid",
            "pid",
            "mem_used_mb",
            "loginuid_user",
            "owner_user",
            "run_id",
            "gpu_index",
            "process_name",
            "process_type",
        ],
    ),
];

/// Digest of everything that a tool reads in a file.
pub(crate) fn content(path: &Path) -> String {
    let tables = TABLES.map(|(table, _)| dump(path, table));
    gua_test::tape::digest(&format!("{tables:?}"))
}

/// Every row of a table with its number, as the newest release would see it after its migration.
pub(crate) fn dump(path: &Path, table: &str) -> Vec<Vec<Value>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let (_, columns) = TABLES.into_iter().find(|(name, _)| *name == table).unwrap();
    let mut query = connection
        .prepare("SELECT name FROM pragma_table_info(?1)")
        .unwrap();
    let present = query
        .query_map([table], |row| row.get(0))
        .unwrap()
        .collect::<Result<Vec<String>, _>>()
        .unwrap();
    if present.is_empty() {
        return Vec::new();
    }
    let cells = columns
        .iter()
        .map(|column| match present.iter().any(|name| name == column) {
            true => (*column).to_owned(),
            false if *column == "process_type" => "'compute'".to_owned(),
            false => "NULL".to_owned(),
        });
    let cells = cells.collect::<Vec<_>>().join(", ");
    let mut query = connection
        .prepare(&format!(
            "SELECT rowid, {cells} FROM {table} ORDER BY rowid"
        ))
        .unwrap();
    let rows = query
        .query_map([], |row| {
            (0..=columns.len()).map(|at| row.get(at)).collect()
        })
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Checks that both files hold the same rows, table by table.
pub(crate) fn assert_same_rows(one: &Path, other: &Path) {
    for (table, _) in TABLES {
        let (one, other) = (dump(one, table), dump(other, table));
        assert_eq!(one.len(), other.len(), "rows of {table}");
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one, other, "{table}");
        }
    }
}

/// Imports an old file into a history of ours.
pub(crate) fn import(old: &Path, ours: &Path) -> Result<Imported, LegacyError> {
    // Stored totals count as the tool that wrote the rows does.
    let options = WriterOptions {
        thresholds: old_rule(),
        ..WriterOptions::default()
    };
    let mut store = Store::open(ours, OpenMode::CreateOrAppend, &options).unwrap();
    let imported =
        gua_compat::gpu_usage_audit::import(&mut store, old, Timestamp::UNIX_EPOCH, &mut |_| {
            ControlFlow::Continue(())
        });
    store.close().unwrap();
    imported
}

pub(crate) fn export(ours: &Path, name: &str) -> PathBuf {
    let output = ours.with_file_name(name);
    let history = History::open(ours).unwrap();
    gua_compat::gpu_usage_audit::export(&history, &output, gua_files::Over::Refuse, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    output
}

pub(crate) fn always() -> Period {
    Period::new(Timestamp::MIN, Timestamp::MAX)
}

/// Totals of imported rows by quarter hour, counted as the tool that wrote them counts.
pub(crate) type Counted = Vec<(Quarter, Vec<GpuQuarter>)>;

fn counted(records: &dyn Records, window: Period) -> Counted {
    let mut counted = Counted::new();
    let mut put = |quarter: Quarter, gpus: &[GpuQuarter]| counted.push((quarter, gpus.to_vec()));
    records
        .totals(Origin::Imported, window, old_rule(), &mut put)
        .unwrap();
    counted
}

pub(crate) fn totals_in_place(old: &Path, window: Period) -> Counted {
    counted(&OldFile::open(old).unwrap(), window)
}

/// Totals of the same rows after they were imported, which are the stored ones for whole quarters.
pub(crate) fn totals_imported(ours: &Path, window: Period) -> Counted {
    let history = History::open(ours).unwrap();
    counted(&history, window)
}

/// Sums of all totals.
pub(crate) fn sums(counted: &Counted) -> Sums {
    let mut sums = Sums::default();
    for gpu in counted.iter().flat_map(|(_, gpus)| gpus) {
        sums.add(&gpu.total);
    }
    sums
}

/// GPU ticks by class: active, idle-held, truly-idle.
pub(crate) fn classes(counted: &Counted) -> [u64; 3] {
    let sums = sums(counted);
    RollUp::ALL.map(|class| sums.state(class.into()).ticks)
}

/// Names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().unwrap().flatten();
    let mut names = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}
