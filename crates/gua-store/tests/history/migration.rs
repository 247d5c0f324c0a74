//! Every released schema stays readable and writable. `tests/golden/schema-N.sql` is a dump of a file that the release
//! with schema N wrote: half an hour of a small host, closed. It is never edited; a new schema adds the next.

use gua_store::{FileKind, what_is_this};
use rusqlite::Connection;

use crate::{Place, all, begin, read_all, record};
use gua_test::synthetic::SyntheticHost;

/// Builds the file of a release and expects it to hold what it held, before and after this program wrote to it.
fn check(version: u32, dump: &str) {
    let place = Place::new();
    let connection = Connection::open(place.path()).unwrap();
    connection.execute_batch(dump).unwrap();
    connection
        .pragma_update(None, "application_id", gua_store::schema::APPLICATION_ID)
        .unwrap();
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
    drop(connection);
    assert_eq!(
        what_is_this(&place.path()),
        FileKind::OurHistory { version }
    );

    let mut host = SyntheticHost::small();
    let mut written: Vec<_> = (0..60).map(|_| host.tick()).collect();
    let mut store = place.store();
    assert_eq!(read_all(&place.history()), written, "schema {version}");
    assert!(place.history().check(|_| {}).unwrap().is_clean());
    let sessions = place.history().sessions(all()).unwrap();
    assert_eq!(sessions.len(), SESSIONS);
    let run = begin(&mut store, &host);
    written.extend(record(&mut store, run, &mut host, 60));
    assert_eq!(read_all(&place.history()), written, "schema {version}");
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

/// How many sessions the host has in its first 60 ticks.
const SESSIONS: usize = 2;

#[test]
fn a_file_of_schema_1_is_read_and_written_on() {
    check(1, include_str!("../golden/schema-1.sql"));
}
