//! Files that the real releases wrote.

use crate::rows::{
    always, assert_same_rows, classes, export, import, names, sums, totals_imported,
    totals_in_place,
};
use gua_test::originals::RELEASES;
use gua_test::tape::Tape;

#[test]
fn every_release_is_read_in_place_with_the_counts_of_its_own_tool() {
    let tape = Tape::open("store-in-place", &RELEASES);
    for version in RELEASES {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("old.db");
        tape.demo(version, &old, 30);
        let before = names(directory.path());
        let totals = totals_in_place(&old, always());
        // The demo of 1.8.0 has a desktop of 128 MB on its third GPU, which the old rule counts as held.
        let expected = if version == "1.8.0" {
            [12, 72, 6]
        } else {
            [12, 42, 36]
        };
        assert_eq!(classes(&totals), expected, "{version}");
        let ticks = |name: Option<&str>| -> u64 {
            let gpus = totals.iter().flat_map(|(_, gpus)| gpus);
            let owners = gpus.flat_map(|gpu| &gpu.total.owners);
            let named = owners.filter(|(owner, _)| owner.name() == name);
            named.map(|(_, sums)| sums.imported.ticks).sum()
        };
        assert_eq!(ticks(None), 30, "{version}");
        assert_eq!(ticks(Some("bob")), 30, "{version}");
        assert_eq!(ticks(Some("alice")), 24, "{version}");
        // 1.0.2 recorded no interval, so each tick counts as thirty seconds.
        let hours = sums(&totals).hours(gua_model::RollUp::Active);
        let interval = if version == "1.0.2" { 30.0 } else { 0.02 };
        assert!(
            (hours - 12.0 * interval / 3600.0).abs() < 1e-12,
            "{version}: {hours}"
        );
        assert_eq!(
            names(directory.path()),
            before,
            "{version}: nothing is left beside the file"
        );
    }
}

#[test]
fn imported_rows_count_as_the_file_does_in_place() {
    let tape = Tape::open("store-imported", &RELEASES);
    for version in RELEASES {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("old.db");
        let ours = directory.path().join("ours.db");
        tape.demo(version, &old, 12);
        let bytes = std::fs::read(&old).unwrap();
        import(&old, &ours).unwrap();
        assert_eq!(
            totals_imported(&ours, always()),
            totals_in_place(&old, always()),
            "{version}"
        );
        assert_eq!(
            std::fs::read(&old).unwrap(),
            bytes,
            "{version}: the old file is unchanged"
        );
    }
}

#[test]
fn importing_again_adds_only_new_rows() {
    let tape = Tape::open("store-again", &RELEASES);
    for version in RELEASES {
        let directory = tempfile::tempdir().unwrap();
        let (old, ours) = (
            directory.path().join("old.db"),
            directory.path().join("ours.db"),
        );
        tape.demo(version, &old, 5);
        let first = import(&old, &ours).unwrap();
        assert_eq!((first.gpu_rows, first.new_gpu_rows), (15, 15), "{version}");
        let again = import(&old, &ours).unwrap();
        assert_eq!(
            (again.gpu_rows, again.new_gpu_rows, again.new_process_rows),
            (15, 0, 0),
            "{version}"
        );
        tape.demo(version, &old, 4);
        let copy = directory.path().join("a copy.db");
        std::fs::copy(&old, &copy).unwrap();
        let grown = import(&copy, &ours).unwrap();
        assert_eq!((grown.gpu_rows, grown.new_gpu_rows), (27, 12), "{version}");
        assert_eq!(grown.new_runs, u64::from(version != "1.0.2"), "{version}");
        assert_eq!(
            totals_imported(&ours, always()),
            totals_in_place(&old, always()),
            "{version}"
        );
    }
}

#[test]
fn a_file_that_newer_releases_migrated_and_continued_is_the_same_source() {
    let tape = Tape::open("store-migrated", &RELEASES);
    let directory = tempfile::tempdir().unwrap();
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    tape.demo("1.0.2", &old, 4);
    import(&old, &ours).unwrap();
    for (version, rows) in [("1.0.3", 18), ("1.1.0", 24), ("1.8.0", 30), ("1.0.2", 36)] {
        tape.demo(version, &old, 2);
        let grown = import(&old, &ours).unwrap();
        assert_eq!((grown.gpu_rows, grown.new_gpu_rows), (rows, 6), "{version}");
        assert_eq!(
            totals_imported(&ours, always()),
            totals_in_place(&old, always()),
            "{version}"
        );
    }
    assert_same_rows(&old, &export(&ours, "exported.db"));
}
