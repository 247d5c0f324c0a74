//! A file that the real collector is writing meanwhile, with the simulated driver.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario::Scenario;

use crate::rows::{
    always, assert_same_rows, export, import, names, totals_imported, totals_in_place,
};
use gua_test::originals;
use gua_test::tape::Tape;

const SCENARIO: &str = r#"
    [[gpu]]
    name = "NVIDIA RTX A6000"
    uuid = "GPU-00000000-0000-4000-8000-00000000000a"
    memory_total_mib = 49140
    util = 87
    temperature_c = 61
    power_w = 271.4
    [[gpu.process]]
    pid = SELF
    memory_mib = 4096
    [[gpu]]
    uuid = "GPU-00000000-0000-4000-8000-00000000000b"
    util = 2
    [[gpu.process]]
    pid = SELF
    type = "graphics"
    memory_mib = 128
    [[gpu]]
    uuid = "GPU-00000000-0000-4000-8000-00000000000c"
    util = 0
"#;

/// A collector of a release, running in the foreground.
struct Collector(Child);

impl Collector {
    fn start(version: &str, driver: &Path, db: &Path) -> Self {
        let text = SCENARIO.replace("SELF", &std::process::id().to_string());
        driver::install(driver, Generation::LATEST).unwrap();
        let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        scenario.write(driver.join("scenario.toml")).unwrap();
        let child = originals::release(version)
            .args(["daemon", "--foreground", "--interval", "20ms", "--db"])
            .arg(db)
            .env("LD_LIBRARY_PATH", driver)
            .env(nvml_sim::VARIABLE, driver.join("scenario.toml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.0.id().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
    }

    fn end(mut self, name: &str) {
        self.signal(name);
        self.0.wait().unwrap();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It has already exited unless a test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Histories {
    _directory: tempfile::TempDir,
    driver: PathBuf,
    old: PathBuf,
    ours: PathBuf,
}

fn histories() -> Histories {
    let directory = tempfile::tempdir().unwrap();
    let driver = directory.path().join("driver");
    std::fs::create_dir(&driver).unwrap();
    let old = directory.path().join("history").join("old.db");
    std::fs::create_dir(old.parent().unwrap()).unwrap();
    let ours = directory.path().join("ours.db");
    Histories {
        _directory: directory,
        driver,
        old,
        ours,
    }
}

/// Imports repeatedly until enough rows were written, while the collector writes.
fn follow(host: &Histories, rows: u64) {
    let mut seen = 0;
    let mut times = 0;
    while seen < rows {
        assert!(times < 2000, "the collector wrote only {seen} rows");
        times += 1;
        match import(&host.old, &host.ours) {
            Ok(imported) => {
                assert!(imported.gpu_rows >= seen);
                seen = imported.gpu_rows;
            }
            Err(error) => assert_eq!(seen, 0, "{error:?}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_file_is_imported_repeatedly_while_its_collector_writes() {
    let versions = ["1.1.0", "1.8.0"];
    let tape = Tape::open("store-live", &versions);
    for version in versions {
        let host = histories();
        tape.file(&host.old, || {
            let collector = Collector::start(version, &host.driver, &host.old);
            follow(&host, 60);
            collector.end("TERM");
        });
        import(&host.old, &host.ours).unwrap();
        assert_eq!(
            totals_imported(&host.ours, always()),
            totals_in_place(&host.old, always()),
            "{version}"
        );
        assert_same_rows(&host.old, &export(&host.ours, "exported.db"));
    }
}

#[test]
fn the_wal_of_a_killed_collector_is_read_and_nothing_is_left_beside_the_file() {
    let host = histories();
    let folder = host.old.parent().unwrap();
    let tape = Tape::open("store-killed", &["1.8.0"]);
    tape.file(&host.old, || {
        let collector = Collector::start("1.8.0", &host.driver, &host.old);
        follow(&host, 30);
        collector.end("KILL");
    });
    tape.file(&folder.join("old.db-wal"), || {});
    tape.file(&folder.join("old.db-shm"), || {});
    assert_eq!(names(folder), ["old.db", "old.db-shm", "old.db-wal"]);
    // As in a copy of the file and its WAL, without the shared-memory index.
    std::fs::remove_file(folder.join("old.db-shm")).unwrap();
    let log = std::fs::read(folder.join("old.db-wal")).unwrap();
    assert!(!log.is_empty());
    let imported = import(&host.old, &host.ours).unwrap();
    assert!(imported.gpu_rows >= 30);
    assert_eq!(names(folder), ["old.db", "old.db-wal"]);
    assert_eq!(std::fs::read(folder.join("old.db-wal")).unwrap(), log);
    assert_eq!(
        totals_in_place(&host.old, always()),
        totals_imported(&host.ours, always())
    );
    assert_same_rows(&host.old, &export(&host.ours, "exported.db"));
}
