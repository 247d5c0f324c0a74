//! Thresholds used for the totals of a file. They are written once, when the file is created.

use gua_model::{CountGraphics, Percent, Thresholds};
use rusqlite::Connection;

use crate::store::{meta, set_meta};

const ACTIVE_UTIL: &str = "rule_active_util";
const HELD_MB: &str = "rule_held_mb";
const COUNT_GRAPHICS: &str = "rule_count_graphics";

/// Stores the thresholds in a file that has none.
pub(crate) fn keep(connection: &Connection, thresholds: &Thresholds) -> rusqlite::Result<()> {
    if meta(connection, COUNT_GRAPHICS)?.is_some() {
        return Ok(());
    }
    set_meta(connection, ACTIVE_UTIL, thresholds.active_util.get().into())?;
    let held = i64::try_from(thresholds.held_mb).unwrap_or(i64::MAX);
    set_meta(connection, HELD_MB, held)?;
    let graphics = i64::from(thresholds.count_graphics == CountGraphics::Yes);
    set_meta(connection, COUNT_GRAPHICS, graphics)
}

/// Loads the thresholds of a file; missing values have their defaults.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Thresholds> {
    let default = Thresholds::default();
    let util = meta(connection, ACTIVE_UTIL)?
        .and_then(|util| u32::try_from(util).ok())
        .and_then(Percent::new);
    let held = meta(connection, HELD_MB)?.and_then(|held| u64::try_from(held).ok());
    let graphics = meta(connection, COUNT_GRAPHICS)?;
    Ok(Thresholds {
        active_util: util.unwrap_or(default.active_util),
        held_mb: held.unwrap_or(default.held_mb),
        count_graphics: match graphics {
            Some(1) => CountGraphics::Yes,
            _ => CountGraphics::No,
        },
    })
}
