//! Daily budgets of users for what their programs hand over: refusals and runs.
//!
//! They count by the time of arrival. The times in an event are what its author says, so a budget that counted by them would
//! be unlimited. What was used today is in the table `meta`, one row per user, and survives a restart of the collector.

use jiff::Timestamp;
use rusqlite::Connection;

use crate::sql;
use crate::store::{meta, set_meta};

const DAY: i64 = 86_400_000_000;

/// Maximum amount that is accepted from a user on one day (UTC).
pub(crate) struct Budget {
    pub(crate) name: &'static str,
    pub(crate) most: i64,
}

/// Takes an amount from a user's budget of the day. Returns `false`, and takes nothing, if too little is left.
pub(crate) fn admits(
    connection: &Connection,
    budget: &Budget,
    uid: u32,
    arrived: Timestamp,
    amount: usize,
) -> rusqlite::Result<bool> {
    let name = budget.name;
    let today = format!("{name}:{}:", arrived.as_microsecond().div_euclid(DAY));
    let key = format!("{today}{uid}");
    let used = match meta(connection, &key)? {
        Some(used) => used,
        None => {
            let delete = "DELETE FROM meta WHERE key GLOB ?1 AND key NOT GLOB ?2";
            sql::run(
                connection,
                delete,
                [format!("{name}:*"), format!("{today}*")],
            )?;
            0
        }
    };
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    let used = used.saturating_add(amount);
    let is_admitted = used <= budget.most;
    if is_admitted {
        set_meta(connection, &key, used)?;
    }
    Ok(is_admitted)
}

/// Deletes what was used, which has the uids of users.
pub(crate) fn erase(connection: &Connection) -> rusqlite::Result<()> {
    sql::run(
        connection,
        "DELETE FROM meta WHERE key GLOB 'received_*'",
        [],
    )
    .map(drop)
}
