//! A simulated month, for `gua demo` and `gua top --fake`.

use std::path::PathBuf;
use std::time::Duration;

use gua_files::TemporaryDirectory;
use gua_model::demo::month::Month;
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use jiff::Timestamp;

use crate::context::{Context, VERSION};

/// Host name of simulated telemetry.
pub(crate) const HOST: &str = "demo";

/// A collector run for the demonstrations and measurements of this program.
pub(crate) fn new_run(started: Timestamp, interval: Duration) -> NewRun {
    NewRun {
        started,
        interval,
        host: HOST.to_owned(),
        version: VERSION.to_owned(),
        boot: None,
    }
}

/// A simulated month in a history file, which exists as long as this value.
#[derive(Debug)]
pub(crate) struct SimulatedMonth {
    pub(crate) month: Month,
    pub(crate) db: PathBuf,
    /// Removed on drop.
    pub(crate) directory: TemporaryDirectory,
}

impl SimulatedMonth {
    /// Writes a month.
    pub(crate) fn write(context: &Context, month: Month) -> anyhow::Result<Self> {
        let directory = context.passing_directory("gua-demo-")?;
        let db = directory.path().join("demo.db");
        let mut store = Store::open(&db, OpenMode::Create, &WriterOptions::default())?;
        store.record_month(&month, HOST, VERSION)?;
        store.close()?;
        Ok(Self {
            month,
            db,
            directory,
        })
    }
}
