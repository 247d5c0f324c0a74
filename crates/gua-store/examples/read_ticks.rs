//! Prints how many ticks a history has, by reading each. `tests/history/place.rs` runs it as another user.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use gua_model::Period;
use gua_store::{History, ReadError};
use jiff::Timestamp;

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_default();
    let (said, code) = match count(Path::new(&path)) {
        Ok(ticks) => (writeln!(std::io::stdout(), "{ticks}"), ExitCode::SUCCESS),
        Err(error) => (writeln!(std::io::stderr(), "{error}"), ExitCode::FAILURE),
    };
    if said.is_ok() {
        code
    } else {
        ExitCode::FAILURE
    }
}

fn count(path: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let mut ticks = 0;
    let all = Period::new(Timestamp::MIN, Timestamp::MAX);
    History::open(path)?.ticks(all, |tick| {
        tick?;
        ticks += 1;
        Ok::<(), ReadError>(())
    })?;
    Ok(ticks)
}
