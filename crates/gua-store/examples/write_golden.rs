//! Writes the history that `tests/golden/schema-N.sql` is a dump of.

use std::path::Path;
use std::time::Duration;

use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::synthetic::SyntheticHost;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("where to?")?;
    let mut store = Store::open(
        Path::new(&path),
        OpenMode::Create,
        &WriterOptions::default(),
    )?;
    let mut host = SyntheticHost::small();
    let run = store.begin_run(&NewRun {
        started: host.now(),
        interval: Duration::from_secs(30),
        host: "node1".to_owned(),
        version: "0.1.0".to_owned(),
        boot: None,
    })?;
    for _ in 0..60 {
        let tick = host.tick();
        store.record(run, &tick)?;
        store.maintain(tick.sample.at)?;
    }
    store.end_run(run, host.now())?;
    store.close()?;
    Ok(())
}
