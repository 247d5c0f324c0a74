//! The month of `gua demo` as a history file. A debug build takes seconds to write it, so all tests of a build share one.

use std::fs::{self, File};
use std::path::Path;

use gua_model::demo::month::Month;
use gua_store::{OpenMode, Store, WriterOptions};

use crate::{TestHost, clock, python};

/// The end of the month, as [`clock::stop`] takes it.
pub const END: &str = "1793372400.000000000";

/// Gives a host the history of the month, and stops its clock at the end of it. Its commands then show what `gua demo` shows,
/// without writing the month each time.
pub fn give(host: &mut TestHost) {
    fs::create_dir_all(host.path(".gua")).unwrap();
    copy(host.program(), &host.state("gua.db"));
    clock::stop(host, END);
}

/// Copies the history of the month. The first test after each build of the program writes it.
fn copy(program: &Path, to: &Path) {
    let directory = python::target_directory().join("tmp");
    let _ = fs::create_dir_all(&directory);
    // An ordinary user cannot write to the build directory of another one.
    let Ok(lock) = File::create(directory.join("demo-month.lock")) else {
        return write(to);
    };
    // Tests run side by side in processes of their own; one of them writes the file.
    lock.lock().unwrap();
    let [shared, stamp] = ["db", "stamp"].map(|end| directory.join(format!("demo-month.{end}")));
    let build = fs::metadata(program).unwrap();
    let build = format!("{:?} {}", build.modified().unwrap(), build.len());
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&build) {
        let part = tempfile::tempdir_in(&directory).unwrap();
        write(&part.path().join("month.db"));
        fs::rename(part.path().join("month.db"), &shared).unwrap();
        fs::write(&stamp, build).unwrap();
    }
    fs::copy(shared, to).unwrap();
}

fn write(path: &Path) {
    let mut store = Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
    let month = Month::before(Month::END);
    let version = env!("CARGO_PKG_VERSION");
    store.record_month(&month, "demo", version).unwrap();
    // Folded as by a collector; a debug build takes long to read a month of ticks.
    while store.maintain(Month::END).unwrap().more {}
    store.close().unwrap();
}
