//! Writes synthetic ticks to a history every 20 ms until it is killed, and prints the time of each when it is stored.
//! `tests/history/kill.rs` kills it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gua_model::BootId;
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use gua_test::synthetic::SyntheticHost;

fn main() -> ExitCode {
    let Err(error) = write() else {
        return ExitCode::SUCCESS;
    };
    // With nobody to listen, there is nothing more to say.
    let _ = writeln!(std::io::stderr(), "{error}");
    ExitCode::FAILURE
}

fn write() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which history?")?;
    let path = Path::new(&path);
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(7 * 24 * 3600)),
        ..WriterOptions::default()
    };
    let mut store = Store::open(path, OpenMode::CreateOrAppend, &options)?;
    let last = History::open(path)?.info()?.last_tick;
    let mut host = SyntheticHost::small();
    if let Some(last) = last {
        host.set_clock(last);
        host.pass(Duration::from_secs(30));
    }
    let run = store.begin_run(&NewRun {
        started: host.now(),
        interval: Duration::from_secs(30),
        host: "node1".to_owned(),
        version: "test".to_owned(),
        boot: Some(BootId(77)),
    })?;
    let mut out = std::io::stdout();
    loop {
        let tick = host.tick();
        store.record(run, &tick)?;
        writeln!(out, "{}", tick.sample.at.as_microsecond())?;
        out.flush()?;
        while store.maintain(tick.sample.at)?.more {}
        std::thread::sleep(Duration::from_millis(20));
    }
}
