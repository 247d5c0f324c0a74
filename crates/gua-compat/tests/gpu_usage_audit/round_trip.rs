//! Import followed by export: the rows are the same, and the real tool reads them and prints the same numbers.

use std::path::Path;

use rusqlite::Connection;

use crate::rows::{assert_same_rows, content, export, import};
use gua_test::originals::{RELEASES, release, run};
use gua_test::tape::Tape;

#[test]
fn import_and_export_preserve_every_row_of_every_release() {
    let tape = Tape::open("store-round-trip", &RELEASES);
    for version in RELEASES {
        let directory = tempfile::tempdir().unwrap();
        let (old, ours) = (
            directory.path().join("old.db"),
            directory.path().join("ours.db"),
        );
        tape.demo(version, &old, 11);
        tape.demo(version, &old, 2);
        import(&old, &ours).unwrap();
        let exported = export(&ours, "exported.db");
        assert_same_rows(&old, &exported);
    }
}

/// Names, types and order of the columns, the indexes, and the metadata of a file.
fn form(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut found = Vec::new();
    for (table, _) in crate::rows::TABLES {
        let sql = "SELECT name || ' ' || type || ' ' || \"notnull\" || ' ' || ifnull(dflt_value, '-') || ' ' || pk \
                   FROM pragma_table_info(?1)";
        let mut query = connection.prepare(sql).unwrap();
        let columns = query
            .query_map([table], |row| row.get::<_, String>(0))
            .unwrap();
        found.extend(columns.map(|column| format!("{table} {}", column.unwrap())));
    }
    let sql = "SELECT type || ' ' || name || ' ' || tbl_name FROM sqlite_master ORDER BY 1";
    let mut query = connection.prepare(sql).unwrap();
    found.extend(
        query
            .query_map([], |row| row.get::<_, String>(0))
            .unwrap()
            .map(Result::unwrap),
    );
    for pragma in [
        "journal_mode",
        "user_version",
        "application_id",
        "page_size",
    ] {
        let value: rusqlite::types::Value = connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .unwrap();
        found.push(format!("{pragma} {value:?}"));
    }
    let sql = "SELECT name || ' ' || seq FROM sqlite_sequence";
    found.extend(
        connection
            .prepare(sql)
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap),
    );
    found
}

#[test]
fn an_export_has_the_schema_of_a_fresh_file_of_the_newest_release() {
    let tape = Tape::open("store-form", &["1.8.0"]);
    let directory = tempfile::tempdir().unwrap();
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    tape.demo("1.8.0", &old, 1);
    import(&old, &ours).unwrap();
    assert_eq!(form(&export(&ours, "exported.db")), form(&old));
}

/// Report of a release on a copy of a file, because it migrates what it reads. Times of day are left out.
fn report(version: &str, db: &Path) -> String {
    let copy = db.with_extension("copy");
    std::fs::copy(db, &copy).unwrap();
    let output = run(release(version)
        .args(["report", "--since", "365d", "--db"])
        .arg(&copy));
    std::fs::remove_file(copy).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.contains("구간  ") && !line.contains("생성  "));
    let ago = |line: &str| match line.find("계속 (") {
        Some(at) => line[..at].to_owned(),
        None => line.to_owned(),
    };
    lines.map(ago).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_real_tool_prints_the_same_numbers_for_an_export_as_for_the_original() {
    let tape = Tape::open("store-reread", &RELEASES);
    for version in RELEASES {
        let directory = tempfile::tempdir().unwrap();
        let (old, ours) = (
            directory.path().join("old.db"),
            directory.path().join("ours.db"),
        );
        tape.demo(version, &old, 13);
        import(&old, &ours).unwrap();
        let exported = export(&ours, "exported.db");
        tape.input(&content(&exported));
        for reader in RELEASES {
            let (original, again) = tape.take(|| (report(reader, &old), report(reader, &exported)));
            assert_eq!(original, again, "{reader} on a file of {version}");
            assert!(
                original.contains("39") || reader == "1.8.0",
                "{reader} on a file of {version}: {original}"
            );
        }
    }
}

#[test]
fn two_sources_share_no_run_and_every_row_is_kept() {
    let tape = Tape::open("store-two-sources", &["1.1.0", "1.8.0", "1.0.2"]);
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("ours.db");
    let mut rows = 0;
    for version in ["1.1.0", "1.8.0", "1.0.2"] {
        let old = directory.path().join(format!("{version}.db"));
        tape.demo(version, &old, 3);
        rows += import(&old, &ours).unwrap().gpu_rows;
    }
    let exported = Connection::open(export(&ours, "exported.db")).unwrap();
    let one = |sql: &str| {
        exported
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(one("SELECT count(*) FROM gpu_sample"), rows.cast_signed());
    assert_eq!(one("SELECT count(DISTINCT run_id) FROM gpu_sample"), 2);
    assert_eq!(one("SELECT count(*) FROM daemon_run"), 2);
    assert_eq!(
        one("SELECT count(*) FROM gpu_sample WHERE run_id IS NULL"),
        9
    );
    // The demo's GPUs and the host are the same in all three.
    assert_eq!(
        (
            one("SELECT count(*) FROM gpu_device"),
            one("SELECT count(*) FROM host")
        ),
        (3, 1)
    );
}
