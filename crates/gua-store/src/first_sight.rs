//! The first sight of each GPU: the stored one, and the one that its ticks and totals show.
//!
//! The coverage of a GPU is counted from its stored first sight. If that is later than the GPU's earliest tick, its hours
//! exceed its capacity, and reports leave the GPU out. Files of versions that stored the time of the first tick written,
//! with a clock that was ahead, have such GPUs. `gua db check` finds them, and `gua db repair` corrects them.

use std::collections::BTreeMap;

use gua_model::{GpuUuid, sane};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::{ReadError, WriteError};
use crate::fold::each_tick;
use crate::imported;
use crate::maintain::into_write;
use crate::names;
use crate::sql;
use crate::store::Store;
use crate::totals;

/// A GPU whose stored first sight is later than its earliest tick, or cannot be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateSight {
    pub gpu: GpuUuid,
    pub stored: Timestamp,
    /// Earliest time in the ticks and totals of the GPU.
    pub earliest: Timestamp,
}

/// The earliest time of each GPU that was added.
#[derive(Debug, Default)]
pub(crate) struct FirstSights(BTreeMap<GpuUuid, i64>);

impl FirstSights {
    pub(crate) fn add(&mut self, gpu: &GpuUuid, at: i64) {
        let first = self.0.entry(gpu.clone()).or_insert(at);
        *first = at.min(*first);
    }

    /// GPUs that are stored with a later first sight.
    pub(crate) fn late(&self, connection: &Connection) -> Result<Vec<LateSight>, ReadError> {
        let sql = "SELECT first_seen FROM card WHERE uuid = ?1";
        let mut late = Vec::new();
        for (gpu, earliest) in &self.0 {
            let Some(stored) = sql::find::<i64>(connection, sql, [gpu.as_str()])? else {
                continue;
            };
            if stored > *earliest || sane::time(stored).is_none() {
                late.push(LateSight {
                    gpu: gpu.clone(),
                    stored: sane::nearest(stored),
                    earliest: sane::nearest(*earliest),
                });
            }
        }
        Ok(late)
    }
}

impl Store {
    /// Corrects what can be computed again: the first sights of GPUs, which are returned, the totals and sessions of all
    /// remaining ticks, and the totals of imported rows. Ticks, rows, and totals whose ticks have been deleted stay unchanged.
    pub fn repair(&mut self) -> Result<Vec<LateSight>, WriteError> {
        let transaction = sql::begin(&mut self.connection)?;
        let late = late_sights(&transaction).map_err(into_write)?;
        for sight in &late {
            names::note_sight(&transaction, &sight.gpu, sight.earliest.as_microsecond())?;
        }
        imported::rebuild(&transaction)?;
        transaction.commit()?;
        self.rebuild_totals()?;
        Ok(late)
    }
}

fn late_sights(connection: &Connection) -> Result<Vec<LateSight>, ReadError> {
    let mut sights = FirstSights::default();
    totals::survey(connection, &mut sights, 0)?;
    each_tick(connection, (i64::MIN, i64::MAX), |at, tick| {
        for gpu in tick.iter().flat_map(|stored| &stored.tick.sample.gpus) {
            sights.add(&gpu.uuid, at);
        }
    })?;
    sights.late(connection)
}
