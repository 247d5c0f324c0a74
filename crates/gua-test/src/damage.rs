//! History files with impossible rows, as a failing disk, a program error or another person leaves them.

use std::path::Path;

/// Kinds of damage, with the statements that cause them. The times are the ends of the 64-bit range, of the calendar, and of
/// the time that is accepted: rows at both of its ends claim a century.
pub const DAMAGES: [(&str, &[&str]); 9] = [
    (
        "ticks and totals far away",
        &[
            "INSERT INTO tick SELECT column1, 1, (SELECT body FROM tick ORDER BY at LIMIT 1) FROM (VALUES
             (-9223372036854775807), (-1), (0), (4102444799999999), (4102444800000000), (253402300800000000),
             (9223372036854775807))",
            "INSERT INTO quarter_total SELECT column1, (SELECT body FROM quarter_total LIMIT 1), 0 FROM (VALUES
             (-9223372036854775807), (-1), (0), (4558271), (281558112), (9223372036854775807))",
            "INSERT INTO day_total SELECT column1, (SELECT body FROM day_total LIMIT 1) FROM (VALUES (-1), (0), (47481),
             (9223372036854775807))",
        ],
    ),
    (
        "sessions of a century and of all time",
        &[
            "UPDATE session SET began = -9223372036854775807, ended = 9223372036854775807 WHERE id % 2 = 0",
            "UPDATE session SET began = 1, ended = 4102444799999999 WHERE id % 2 = 1",
        ],
    ),
    (
        "outages and runs of a century and of all time",
        &[
            "INSERT INTO outage (began, ended, reason, detail, ticks_lost) VALUES
             (1, 4102444799999999, 'driver-hung', '', 4294967295),
             (-9223372036854775807, 9223372036854775807, 'collector-down', '', 9223372036854775807)",
            "UPDATE collector_run SET started = 1, ended = 9223372036854775807, interval = 9223372036854775807",
            "INSERT INTO watched_run (owner, run, name, started, ended, cards, summary) SELECT 1, 'run' || column1, 'train',
             column1, 9223372036854775807, '', '{}' FROM (VALUES (-1), (1), (4102444799999999))",
            "INSERT INTO refusal (at, asker, event, wanted, had, outcome, waited) VALUES
             (4102444799999999, 1, 'event', 1, 0, 'refused', 9223372036854775807)",
        ],
    ),
    (
        "GPUs seen since 1970, not before 2100, and inside themselves",
        &[
            "UPDATE card SET first_seen = iif(id % 2, 1, 4102444799999999)",
            "UPDATE card SET parent = uuid, compute_slices = 0, parent_slices = 0 WHERE id % 2 = 0",
        ],
    ),
    (
        "unreadable ticks and totals",
        &[
            "UPDATE tick SET body = zeroblob(40) WHERE at / 60000000 % 3 = 0",
            "UPDATE quarter_total SET body = zeroblob(40) WHERE quarter % 2 = 0",
            "UPDATE day_total SET body = zeroblob(40)",
        ],
    ),
    (
        "imported rows far away",
        &[
            "UPDATE old_card_block SET at_us = 1 WHERE first_row = (SELECT min(first_row) FROM old_card_block)",
            "UPDATE old_card_block SET at_us = 4102444799999999 WHERE first_row = (SELECT max(first_row) FROM old_card_block)",
            "UPDATE old_source SET first_us = 1, last_us = 4102444799999999",
            "INSERT INTO old_quarter SELECT 4558271, body, 0 FROM old_quarter LIMIT 1",
            "INSERT INTO old_day SELECT 47481, body FROM old_day LIMIT 1",
        ],
    ),
    (
        "imported intervals of all time",
        &[
            "UPDATE old_run SET interval_seconds = 1e300",
            "UPDATE old_card_block SET written_as = '9999-12-31T23:59:59.999999+00:00'",
        ],
    ),
    (
        "values that are never stored",
        &[
            "UPDATE session SET kind = 9 WHERE id % 2 = 0",
            "UPDATE card SET number = -1, parent = '' WHERE id = 1",
            "UPDATE owner SET uid = -1 WHERE id = 1",
            "UPDATE collector_run SET boot = x'00'",
            "INSERT INTO outage (began, ended, reason, detail, ticks_lost) VALUES (1, 2, 'unheard-of', '', -1)",
            "INSERT INTO refusal (at, asker, event, wanted, had, outcome, waited) VALUES (1, 1, 'event', -1, 0, 'unheard-of', 0)",
            "INSERT INTO watched_run (owner, run, name, started, cards, summary) VALUES (1, 'run', 'train', 1, char(1), '{}')",
            "UPDATE old_text SET text = char(1) WHERE id = 0",
            "UPDATE old_card_block SET run = 9223372036854775807",
        ],
    ),
    ("facts", &["UPDATE meta SET value = 9223372036854775807"]),
];

/// Damages a history. Every statement must change it.
pub fn damage(path: &Path, statements: &[&str]) {
    let connection = rusqlite::Connection::open(path).unwrap();
    for statement in statements {
        let changed = connection.execute(statement, []);
        assert!(
            changed.as_ref().is_ok_and(|rows| *rows > 0),
            "{statement}: {changed:?}"
        );
    }
}
