//! Every mistake in a file is reported with its location.

use super::*;

#[test]
fn every_mistake_is_reported_with_its_place() {
    check("", &[]);
    check("[states]\nactive_util = 0x1F\nheld_mb = 1_000\n", &[]);
    check(
        "[driver]\nlibrary = '/opt/x.so'\ndeadline = '1.5s'\n[history]\ndb = '~/h.db'\n",
        &[],
    );
    check(
        "[sates]\nheld_mb = 1\n",
        &["f:1:2: unknown section [sates]; did you mean [states]?"],
    );
    check(
        "[zzz]\n",
        &[
            "f:1:2: unknown section [zzz]; there are driver, states, owners, history, privacy, claim, collect, csv, metrics, cloud, serve",
        ],
    );
    check(
        "[states]\nheld_md = 1\n",
        &["f:2:1: unknown key `held_md` in [states]; did you mean `held_mb`?"],
    );
    check(
        "[states]\ndb = '/x'\n",
        &["f:2:1: unknown key `db` in [states]; it belongs to [history]"],
    );
    check(
        "[history]\nzzz = 1\n",
        &["f:2:1: unknown key `zzz` in [history]; there are db, service_db, socket"],
    );
    check(
        "held_mb = 1\n",
        &["f:1:1: `held_mb` belongs to [states]: write [states] above it"],
    );
    check("zzz = 1\n", &["f:1:1: `zzz` is not in a section"]);
    check(
        "states = 1\n",
        &["f:1:1: `states` is a section: write [states]"],
    );
    check(
        "[[states]]\nheld_mb = 1\n",
        &["f:1:3: `states` is a section: write [states]"],
    );
    check("states.held_mb = 1\n", &[]);
}

#[test]
fn every_wrong_value_is_reported_with_what_was_expected() {
    let percent = "states.active_util: expected a whole number from 1 to 100, found";
    let cases = [
        ("active_util = 0", format!("{percent} 0")),
        ("active_util = 101", format!("{percent} 101")),
        ("active_util = -5", format!("{percent} -5")),
        (
            "active_util = 99999999999999999999999",
            format!("{percent} 99999999999999999999999"),
        ),
        ("active_util = 10.0", format!("{percent} 10.0")),
        ("active_util = '10'", format!("{percent} the string \"10\"")),
        ("active_util = true", format!("{percent} a boolean")),
        ("active_util = [10]", format!("{percent} an array")),
        ("active_util = {}", format!("{percent} a table")),
        ("active_util = 2026-11-15", format!("{percent} a datetime")),
        (
            "held_mb = -1",
            "states.held_mb: expected a whole number of MB, 0 or more, found -1".to_owned(),
        ),
        (
            "count_graphics = 1",
            "states.count_graphics: expected true or false, found 1".to_owned(),
        ),
    ];
    for (line, message) in cases {
        let column = line.find('=').unwrap() + 3;
        check(
            format!("[states]\n{line}\n"),
            &[&format!("f:2:{column}: {message}")],
        );
    }
    check(
        "[driver]\ndeadline = 10\n",
        &["f:2:12: driver.deadline: expected a duration from 50ms to 1h, such as 10s, found 10"],
    );
    check(
        "[driver]\ndeadline = '10'\n",
        &[
            "f:2:12: driver.deadline: `10` is not a duration; write it like 30s, 1h, 200ms (units: ms, s, m, h, d)",
        ],
    );
    check(
        "[driver]\ndeadline = '2h'\n",
        &[
            "f:2:12: driver.deadline: expected a duration from 50ms to 1h, such as 10s, found the string \"2h\"",
        ],
    );
    check(
        "[driver]\nlibrary = ''\n",
        &["f:2:11: driver.library: expected the name or the path of a library, found nothing"],
    );
    check(
        "[driver]\nlibrary = './x.so'\n",
        &["f:2:11: driver.library: `./x.so` is relative; in a file, write it from / or ~/"],
    );
    check(
        "[history]\ndb = 'gua.db'\n",
        &["f:2:6: history.db: `gua.db` is relative; in a file, write it from / or ~/"],
    );
    check(
        "[history]\ndb = \"a\\u0000b\"\n",
        &["f:2:6: history.db: a path cannot contain a NUL character"],
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_and_not_only_the_first() {
    let text = "[driver]\ndeadlin = '1s'\n[states]\nheld_mb = 'x'\nactive_util = 0\n[nope]\n";
    let home = Home(Some(HOME.into()));
    let problems = file::apply(
        &mut Settings::defaults(&home),
        text.as_bytes(),
        Path::new("f"),
        &home,
    );
    let places: Vec<String> = problems
        .iter()
        .map(|problem| problem.to_string().chars().take(5).collect())
        .collect();
    assert_eq!(places, ["f:2:1", "f:4:1", "f:5:1", "f:6:2"]);
}

#[test]
fn a_syntax_error_does_not_hide_the_other_mistakes() {
    let text = "[states]\nheld_mb = \nzzz = 1\n";
    let home = Home(Some(HOME.into()));
    let problems = file::apply(
        &mut Settings::defaults(&home),
        text.as_bytes(),
        Path::new("f"),
        &home,
    );
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(shown[0].starts_with("f:2:"), "{shown:?}");
    assert!(
        shown
            .iter()
            .any(|line| line.starts_with("f:3:1: unknown key `zzz`")),
        "{shown:?}"
    );
}

#[test]
fn a_byte_that_is_not_utf8_is_reported_with_its_place() {
    check(
        b"[states]\n# \xc3\xa4\xff\n",
        &["f:2:4: this byte is not UTF-8 text"],
    );
}

#[test]
fn columns_count_characters_and_not_bytes() {
    check(
        "[\"ä\"]\n[states]\n\"ää\" = 1\n",
        &[
            "f:1:2: unknown section [ä]; there are driver, states, owners, history, privacy, claim, collect, csv, metrics, cloud, serve",
            "f:3:1: unknown key `ää` in [states]; there are active_util, held_mb, count_graphics",
        ],
    );
}

#[test]
fn a_strange_name_cannot_write_to_the_terminal() {
    check(
        "[\"\\u001b[31m\"]\n",
        &[
            "f:1:2: unknown section [\\u{1b}[31m]; there are driver, states, owners, history, privacy, claim, collect, csv, metrics, cloud, serve",
        ],
    );
}
