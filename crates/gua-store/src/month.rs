//! Writes the simulated month of `gua demo` into a history, tick by tick like a collector.

use gua_model::demo::month::Month;
use jiff::Timestamp;

use crate::error::WriteError;
use crate::store::{NewRun, RunId, Store};

impl Store {
    /// Records a month for the given host and program version. The outage in it separates two collector runs; the
    /// second one has not ended.
    pub fn record_month(
        &mut self,
        month: &Month,
        host: &str,
        version: &str,
    ) -> Result<(), WriteError> {
        let begin = |store: &mut Self, started: Timestamp| -> Result<RunId, WriteError> {
            store.begin_run(&NewRun {
                started,
                interval: Month::INTERVAL,
                host: host.to_owned(),
                version: version.to_owned(),
                boot: None,
            })
        };
        let outage = month.outage();
        let mut run = begin(self, month.start())?;
        for tick in month.ticks() {
            if tick.sample.at == outage.to {
                self.end_run(run, outage.from)?;
                self.record_outage(&outage)?;
                run = begin(self, outage.to)?;
            }
            self.record(run, &tick)?;
        }
        Ok(())
    }
}
