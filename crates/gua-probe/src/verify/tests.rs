//! Rounds with invented answers of nvidia-smi. The real program is imitated in the tests of the binary.

use gua_model::sample::MemoryRepairs;
use gua_model::unit::{Bytes, Milliwatts};
use gua_model::{Driver, Missing, Percent};
use jiff::Timestamp;

use super::*;

fn sample(power: u64, util: u32) -> Sample {
    let mut gpu = Gpu::without_readings("GPU-a".parse().unwrap(), 0, Missing::Unsupported);
    gpu.power = Ok(Milliwatts(power));
    gpu.util = Ok(Percent::new(util).unwrap());
    gpu.memory_total = Ok(Bytes(80 << 30));
    Sample {
        at: Timestamp::UNIX_EPOCH,
        since_boot: Duration::ZERO,
        boot: Err(Missing::Unsupported),
        driver: Driver {
            version: Ok("550.54.15".to_owned()),
            cuda: Err(Missing::Unsupported),
        },
        gpus: vec![gpu],
        problems: Vec::new(),
    }
}

/// A row of nvidia-smi with these cells, and `[N/A]` in the others.
fn row(cells: &[(&str, &str)]) -> Vec<String> {
    let mut row = vec!["GPU-a".to_owned()];
    for column in COLUMNS {
        let cell = cells.iter().find(|(query, _)| *query == column.query);
        row.push(cell.map_or("[N/A]", |(_, cell)| cell).to_owned());
    }
    row
}

/// The verdict on a column after ten rounds, in which gua reads 100 W and 120 W, 50 % and 80 GiB.
fn verdict(query: &str, cells: [&str; 10]) -> Verdict {
    let mut found = Verification::default();
    for cell in cells {
        let rows = [row(&[(query, cell)])];
        found.add(&sample(100_000, 50), &rows, &[], &sample(120_000, 50));
    }
    let column = COLUMNS.iter().find(|column| column.query == query).unwrap();
    found.columns[query].verdict(column)
}

#[test]
fn a_value_between_the_samples_or_near_them_agrees() {
    for cell in ["100.00", "110.25", "126.00", "91.00"] {
        assert_eq!(verdict("power.draw", [cell; 10]), Verdict::Agrees, "{cell}");
    }
    for cell in ["80.00", "140.00"] {
        assert_eq!(
            verdict("power.draw", [cell; 10]),
            Verdict::Differs,
            "{cell}"
        );
    }
    assert_eq!(verdict("memory.total", ["81920"; 10]), Verdict::Agrees);
    assert_eq!(verdict("memory.total", ["81000"; 10]), Verdict::Differs);
}

#[test]
fn a_moving_reading_may_differ_once_in_ten_rounds() {
    let mut cells = ["50"; 10];
    cells[3] = "100";
    assert_eq!(verdict("utilization.gpu", cells), Verdict::Agrees);
    cells[4] = "100";
    assert_eq!(verdict("utilization.gpu", cells), Verdict::Differs);
}

#[test]
fn a_value_that_only_one_has_is_named() {
    assert_eq!(verdict("fan.speed", ["30"; 10]), Verdict::Differs);
    assert_eq!(verdict("power.draw", ["[N/A]"; 10]), Verdict::OnlyGua);
    assert_eq!(
        verdict("fan.speed", ["[Not Supported]"; 10]),
        Verdict::NoValue
    );
    let mut found = Verification::default();
    found.add(&sample(1, 1), &[], &[], &sample(1, 1));
    assert!(!found.agrees());
    assert!(
        found
            .text("0")
            .contains("1 times: GPUs are listed by gua only")
    );
}

#[test]
fn each_repair_is_compared_with_its_own_column() {
    let verdict = |repairs: u64, query: &str, cell: &str| {
        let mut sample = sample(1, 1);
        sample.gpus[0].memory_repairs = Ok(MemoryRepairs(repairs));
        let mut found = Verification::default();
        found.add(&sample, &[row(&[(query, cell)])], &[], &sample);
        let column = COLUMNS.iter().find(|column| column.query == query).unwrap();
        found.columns[query].verdict(column)
    };
    for (bit, query) in [
        (MemoryRepairs::REMAP_PENDING, "remapped_rows.pending"),
        (MemoryRepairs::REMAP_FAILED, "remapped_rows.failure"),
        (MemoryRepairs::RETIREMENT_PENDING, "retired_pages.pending"),
    ] {
        assert_eq!(verdict(bit, query, "Yes"), Verdict::Agrees, "{query}");
        assert_eq!(verdict(bit, query, "No"), Verdict::Differs, "{query}");
        assert_eq!(verdict(7 - bit, query, "0"), Verdict::Agrees, "{query}");
        assert_eq!(verdict(7 - bit, query, "[N/A]"), Verdict::NoValue);
        assert_eq!(verdict(bit, query, "[N/A]"), Verdict::OnlyGua, "{query}");
    }
}

#[test]
fn the_report_names_the_readings_that_are_not_compared() {
    let text = Verification::default().text("0");
    let line = "\nnot compared: energy, Xid error, list of graphics processes\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn cells_are_parsed_in_our_units() {
    for (cell, scale, expected) in [
        ("291.50", 1000, Some(291_500)),
        ("24", 1 << 20, Some(24 << 20)),
        ("P8", 1, Some(8)),
        ("0x0000000000000004", 1, Some(4)),
        ("Enabled", 1, Some(1)),
        ("Exclusive_Process", 1, Some(3)),
        ("Yes", 1, Some(1)),
        ("00000001:3B:02.0", 1, Some(0x1_3b02)),
        ("00000001:3B", 1, None),
        ("[N/A]", 1, None),
        ("[Insufficient Permissions]", 1, None),
        ("", 1, None),
    ] {
        assert_eq!(parse(cell, scale), expected, "{cell}");
    }
    let check = |query: &str, value: i64, expected: &str| {
        let column = COLUMNS.iter().find(|column| column.query == query).unwrap();
        assert_eq!(column.shown(value), expected);
    };
    check("power.draw", 291_500, "291.5");
    check("memory.total", 81_920 << 20, "81920");
    check("pci.bus_id", 0x1_3b02, "00000001:3B:02.0");
}

#[test]
fn the_report_contains_no_uuid() {
    let mut found = Verification::default();
    let apps = [["GPU-a", "4711", "900"].map(str::to_owned).to_vec()];
    found.add(
        &sample(1, 1),
        &[row(&[("power.draw", "999")])],
        &apps,
        &sample(1, 1),
    );
    let text = found.text("1.2.3");
    assert!(!text.contains("GPU-a") && !text.contains("4711"), "{text}");
    assert!(
        text.contains("for example: nvidia-smi 999, gua 0 to 0"),
        "{text}"
    );
    assert!(
        text.contains("1 times: processes are listed by nvidia-smi only"),
        "{text}"
    );
    assert!(text.ends_with("Some readings differ.\n"), "{text}");
}
