//! Parts that the tests of both traits share.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails has failed")]

mod ledger;
mod registry;

pub use ledger::ledger;
pub use registry::registry;

use jiff::Timestamp;

use crate::registry::{Actor, Change};

/// A time of the test's own calendar.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn by(second: i64) -> Change {
    Change {
        actor: Actor::Account("ada".to_owned()),
        address: Some("192.0.2.1".to_owned()),
        at: at(second),
    }
}
