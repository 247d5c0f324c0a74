//! A synthetic history in the format of gpu-usage-audit 1.1.0, the same at every run.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

/// Size of the history.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub gpus: u64,
    pub ticks: u64,
    pub interval_seconds: i64,
    /// Spread evenly over all GPU rows.
    pub process_rows: u64,
}

/// Twelve GPUs for thirty days at thirty seconds, with 1.44 process rows per GPU row.
pub const MONTH: Shape = Shape {
    gpus: 12,
    ticks: 86_400,
    interval_seconds: 30,
    process_rows: 1_488_752,
};

impl Shape {
    pub fn gpu_rows(&self) -> u64 {
        self.gpus * self.ticks
    }
}

const TABLES: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -64000;
CREATE TABLE host (hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE TABLE daemon_run (id INTEGER PRIMARY KEY AUTOINCREMENT, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL);
CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL,
    run_id INTEGER REFERENCES daemon_run(id), gpu_index INTEGER, memory_used_mb INTEGER, temperature_c INTEGER, power_w INTEGER);
CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER NOT NULL,
    loginuid_user TEXT, run_id INTEGER REFERENCES daemon_run(id), gpu_index INTEGER, process_name TEXT);
CREATE TABLE gpu_device (gpu_uuid TEXT NOT NULL, name TEXT NOT NULL, memory_total_mb INTEGER NOT NULL,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE INDEX idx_gpu_sample_uuid_ts ON gpu_sample(gpu_uuid, ts);
CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
CREATE UNIQUE INDEX idx_gpu_device_uuid ON gpu_device(gpu_uuid);
";

/// Changes a history by SQL.
pub fn change(path: &Path, sql: &str) -> Result<(), rusqlite::Error> {
    Connection::open(path)?.execute_batch(sql)
}

/// Writes the history. Its last tick is the one before `end`.
pub fn write(path: &Path, shape: &Shape, end: Timestamp) -> Result<(), rusqlite::Error> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(TABLES)?;
    let text = |tick: u64| {
        let before = i64::try_from(shape.ticks - tick).expect("ticks are few");
        let at = end - SignedDuration::from_secs(before * shape.interval_seconds);
        // Ticks of a real collector have microseconds.
        let at = at + SignedDuration::from_micros(740_726);
        at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
    };
    let change = connection.transaction()?;
    change.execute(
        "INSERT INTO host VALUES ('node07', 'bare', '580.95.05', ?1, ?2)",
        (text(0), text(shape.ticks - 1)),
    )?;
    change.execute(
        "INSERT INTO daemon_run (started_at, interval_seconds) VALUES (?1, ?2)",
        (text(0), shape.interval_seconds),
    )?;
    let uuid = |gpu: u64| format!("GPU-{gpu:08x}-0000-4000-8000-{:012x}", gpu * 7919);
    for gpu in 0..shape.gpus {
        change.execute(
            "INSERT INTO gpu_device VALUES (?1, 'NVIDIA A100-SXM4-80GB', 81920, ?2, ?3)",
            (uuid(gpu), text(0), text(shape.ticks - 1)),
        )?;
    }
    {
        let mut gpu_row =
            change.prepare("INSERT INTO gpu_sample VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)")?;
        let mut process_row =
            change.prepare("INSERT INTO proc_sample VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)")?;
        let uuids = (0..shape.gpus).map(uuid).collect::<Vec<_>>();
        for tick in 0..shape.ticks {
            let at = text(tick);
            for (gpu, uuid) in (0..shape.gpus).zip(&uuids) {
                let cell = Cell::new(shape, gpu, tick);
                gpu_row.execute((
                    &at,
                    uuid,
                    cell.util,
                    gpu.cast_signed(),
                    cell.memory,
                    35 + cell.util / 2,
                    60 + 3 * cell.util,
                ))?;
            }
            for (gpu, uuid) in (0..shape.gpus).zip(&uuids) {
                let cell = Cell::new(shape, gpu, tick);
                for slot in 0..cell.processes {
                    let pid = 100_000 + gpu * 1_000 + cell.episode % 1_000 + slot * 100_000;
                    let user =
                        (cell.noise % 7 + slot > 1).then(|| pick(&USERS, cell.episode + slot));
                    process_row.execute((
                        &at,
                        uuid,
                        pid.cast_signed(),
                        cell.memory,
                        user,
                        gpu.cast_signed(),
                        pick(&NAMES, slot),
                    ))?;
                }
            }
        }
    }
    change.commit()
}

const USERS: [&str; 6] = ["ada", "grace", "edsger", "barbara", "donald", "leslie"];
const NAMES: [&str; 3] = ["python", "jupyter", "train.bin"];

fn pick(words: &[&'static str], number: u64) -> &'static str {
    let words = words.iter().cycle();
    let at = usize::try_from(number % 60).expect("it is less than sixty");
    words.copied().nth(at).unwrap_or_default()
}

/// State of one GPU at one tick.
struct Cell {
    util: i64,
    memory: i64,
    processes: u64,
    /// Increases every two hours; each episode has a job of its own.
    episode: u64,
    noise: u64,
}

impl Cell {
    fn new(shape: &Shape, gpu: u64, tick: u64) -> Self {
        let row = tick * shape.gpus + gpu;
        let upto = |rows: u64| rows * shape.process_rows / shape.gpu_rows();
        let episode = tick / 240 * 31 + gpu * 17;
        let noise = mixed(row);
        let busy = mixed(episode) % 3;
        let util = match busy {
            0 => 0,
            1 => noise % 12,
            _ => 60 + noise % 41,
        };
        Self {
            util: util.cast_signed(),
            memory: (mixed(episode) % 70_000).cast_signed(),
            processes: upto(row + 1) - upto(row),
            episode,
            noise,
        }
    }
}

/// A pseudorandom function of a number (the finaliser of splitmix64).
fn mixed(number: u64) -> u64 {
    let first = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ (second >> 31)
}
