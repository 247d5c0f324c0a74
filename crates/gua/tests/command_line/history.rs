//! `gua import`, `gua export` and `gua db` on files that real releases of gpu-usage-audit wrote.

use std::path::{Path, PathBuf};

use super::program::Program;

const RELEASES: [&str; 4] = ["1.0.2", "1.0.3", "1.1.0", "1.8.0"];

/// A home directory with an old file in it.
fn home_with(version: &str) -> (Program, PathBuf) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gua-compat/tests/golden");
    let bytes = std::fs::read(golden.join(format!("gpu-usage-audit-{version}.db")))
        .expect("the golden files are in the store's tests");
    let program = Program::new();
    let path = program.write("old.db", bytes);
    (program, path)
}

/// Runs a command line in the home directory and checks its exit code and a part of its output.
fn check(program: &Program, line: &str, code: i32, says: &str) {
    let ended = program.gua(line.split_whitespace());
    let text = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, code, "{line}: {text}");
    assert!(text.contains(says), "{line}: {text}");
    let on_stdout = code == 0;
    assert_eq!(ended.stdout.is_empty(), !on_stdout, "{line}: {text}");
}

#[test]
fn a_missing_history_is_named_by_every_command_that_maintains_it() {
    let program = Program::new();
    for line in ["db check", "db repair", "db vacuum", "db stats"] {
        check(&program, line, 2, "there is no history at");
    }
}

#[test]
fn every_release_is_imported_once_and_exported_again() {
    for version in RELEASES {
        let (program, old) = home_with(version);
        let before = std::fs::read(&old).unwrap();
        check(&program, "import old.db", 0, "imported 21 GPU rows, 2");
        check(&program, "import old.db", 0, "nothing new in old.db");
        check(
            &program,
            "export --format gpu-usage-audit --output new.db",
            0,
            "exported 21 GPU rows",
        );
        check(&program, "import new.db", 0, "nothing new in new.db");
        check(&program, "db check", 0, "no errors");
        assert_eq!(std::fs::read(&old).unwrap(), before, "{version}");
    }
}

#[test]
fn an_old_file_at_the_default_path_is_imported_and_renamed() {
    let (program, old) = home_with("1.1.0");
    let before = std::fs::read(&old).unwrap();
    std::fs::create_dir(program.home().join(".gua")).unwrap();
    std::fs::rename(old, program.home().join(".gua/gua.db")).unwrap();
    check(&program, "import .gua/gua.db", 0, "the old file is now");
    let aside = program.home().join(".gua/gua.db.gpu-usage-audit-1");
    assert_eq!(std::fs::read(aside).unwrap(), before);
    check(&program, "db stats", 0, "old_card_block");
    check(
        &program,
        "import .gua/gua.db",
        2,
        "already a history of gua",
    );
}

#[test]
fn a_failed_import_prints_one_line_and_creates_no_history() {
    let (program, _) = home_with("1.8.0");
    program.write(
        "notes.txt",
        "not a database at all, and longer than a header would be".repeat(4),
    );
    program.write("empty.db", "");
    check(
        &program,
        "import missing.db",
        2,
        "there is no file at `missing.db`",
    );
    check(
        &program,
        "import notes.txt",
        1,
        "not a history of gpu-usage-audit",
    );
    check(&program, "import empty.db", 1, "it is empty");
    check(&program, "import .", 1, "a directory");
    check(&program, "import", 2, "Usage");
    assert!(!program.home().join(".gua").exists());
}

#[test]
fn existing_files_are_not_overwritten() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db --db ours.db", 0, "imported");
    check(
        &program,
        "export --db ours.db --format gpu-usage-audit --output old.db",
        2,
        "exists already",
    );
    check(
        &program,
        "db backup --db ours.db old.db",
        2,
        "already exists",
    );
    check(&program, "db backup --db ours.db copy.db", 0, "copy.db");
    check(&program, "db check --db copy.db", 0, "no errors");
    check(&program, "import old.db --db notes/ours.db", 1, "notes");
    check(
        &program,
        "export --db old.db --format gpu-usage-audit --output x.db",
        2,
        "a history of gpu-usage-audit",
    );
    check(
        &program,
        "export --format gpu-usage-audit --output x.db",
        2,
        "no history",
    );
}

#[test]
fn an_erased_user_does_not_come_back_with_the_next_import() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db", 0, "imported");
    check(&program, "db forget alice", 2, "--yes");
    check(
        &program,
        "db forget nobody --yes",
        1,
        "no user \"nobody\" in",
    );
    check(&program, "db forget alice --yes", 0, "6 imported rows");
    let bytes = std::fs::read(program.home().join(".gua/gua.db")).unwrap();
    assert!(!bytes.windows(5).any(|window| window == b"alice"));
    check(&program, "import old.db", 1, "a person was erased");
    check(&program, "db vacuum", 0, "bytes before");
    check(&program, "db check", 0, "no errors");
}

#[test]
fn files_that_still_contain_an_erased_name_are_listed() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db", 0, "imported");
    let with_the_name = [
        ".gua/gua.db.copy",
        ".gua/cloud.json-spool/1",
        "stats/2026-01-01.csv",
    ];
    for name in with_the_name {
        program.write(name, "1,alice,2\n");
    }
    program.write(".gua/gua.db.other", "1,bob,2\n");
    program.write(".gua/config.toml", "[csv]\ndir = \"~/stats\"\n");
    let ended = program.gua(["db", "forget", "alice", "--yes"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let notes: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(notes.len(), with_the_name.len() + 1, "{notes:?}");
    for name in with_the_name {
        let path = program.home().join(name);
        let note = format!("note: the name is still in `{}`", path.display());
        assert!(notes.contains(&note.as_str()), "{notes:?}");
    }
}

#[test]
fn stats_have_the_same_numbers_in_every_format() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db", 0, "imported");
    let json = program.gua(["db", "stats", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let csv = program.gua(["db", "stats", "--format", "csv"]).stdout;
    let text = program.gua(["db", "stats"]).stdout;
    for table in json["tables"].as_array().unwrap() {
        let (name, bytes, rows) = (
            table["name"].as_str().unwrap(),
            &table["bytes"],
            &table["rows"],
        );
        assert!(
            csv.contains(&format!("{name},{bytes},{rows}\n")),
            "{name}: {csv}"
        );
        let words = format!("{name} {bytes} {rows}");
        let found = text
            .lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words);
        assert!(found, "{words}: {text}");
    }
}

#[test]
fn a_damaged_history_is_refused_with_a_hint_and_can_be_set_aside() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db --db ours.db", 0, "imported");
    let path = program.home().join("ours.db");
    let mut bytes = std::fs::read(&path).unwrap();
    for page in 1..bytes.len() / 4096 {
        bytes[page * 4096..page * 4096 + 300].fill(0xa5);
    }
    std::fs::write(&path, &bytes).unwrap();
    for line in [
        "db stats --db ours.db",
        "db check --db ours.db",
        "db backup --db ours.db copy.db",
        "export --db ours.db --format gpu-usage-audit --output x.db",
        "import old.db --db ours.db",
    ] {
        let ended = program.gua(line.split_whitespace());
        assert_eq!(ended.code, 1, "{line}: {ended:?}");
        assert!(
            ended.stderr.contains("`gua db set-aside --db ") && ended.stderr.contains("ours.db`"),
            "{line}: {ended:?}"
        );
    }
    assert!(!program.home().join("copy.db").exists());
    check(&program, "db set-aside --db ours.db", 2, "--yes");
    let output = program.gua(["db", "set-aside", "--db", "ours.db", "--yes"]);
    assert_eq!(output.code, 0, "{output:?}");
    let (_, aside) = output.stdout.trim().split_once("set aside as ").unwrap();
    assert!(aside.contains("ours.db.damaged-"), "{output:?}");
    assert!(!path.exists());
    assert_eq!(std::fs::read(aside).unwrap(), bytes);
    check(&program, "import old.db --db ours.db", 0, "imported");
    check(&program, "db set-aside --db none.db --yes", 2, "no history");
    check(&program, "db set-aside --db . --yes", 2, "a directory");
}

#[test]
fn an_import_into_a_collectors_history_is_refused_with_a_hint() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db --db ours.db", 0, "imported");
    let options = gua_store::WriterOptions::default();
    let path = program.home().join("ours.db");
    let store = gua_store::Store::open(&path, gua_store::OpenMode::Append, &options).unwrap();
    let line = "import old.db --db ours.db";
    for says in [
        "another collector writes to",
        "`gua stop`, import, `gua start`",
        "`systemctl stop gua`, import, `systemctl start gua`",
    ] {
        check(&program, line, 1, says);
    }
    check(&program, "import old.db --db other.db", 0, "imported");
    store.close().unwrap();
    check(&program, line, 0, "nothing new");
}

#[test]
fn imported_rows_are_checked_and_counted() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db", 0, "imported");
    check(&program, "db check", 0, " imported rows read");
    check(&program, "db stats", 0, "\nimported: 21 GPU rows and ");
    let json = program.gua(["db", "stats", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["imported"]["files"], 1);
    assert_eq!(json["imported"]["gpu_rows"], 21);
    gua_test::schema::check("gua.db-stats.v1", &json.to_string());
    assert!(json["imported"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_history_in_use_by_a_collector_is_not_set_aside() {
    let (program, _) = home_with("1.8.0");
    check(&program, "import old.db --db ours.db", 0, "imported");
    let options = gua_store::WriterOptions::default();
    let path = program.home().join("ours.db");
    let store = gua_store::Store::open(&path, gua_store::OpenMode::Append, &options).unwrap();
    let line = "db set-aside --db ours.db --yes";
    check(&program, line, 1, "another collector writes to");
    assert!(path.exists());
    store.close().unwrap();
    check(&program, line, 0, "set aside as");
}
