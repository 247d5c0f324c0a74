//! A day of gpu_stats: any lines are parsed or reported, what we write is read back, and rows can be imported.
#![no_main]

use std::ops::ControlFlow;
use std::time::Duration;

use arbitrary::Arbitrary;
use gua_compat::gpu_stats::{
    Again, HEADER, Holder, Row, StatsDay, StatsInterval, StatsRow, import_day, parse, push,
};
use gua_fuzz::directory;
use gua_store::{OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Line {
    Row { at: u32, user: String, pid: u32, gpu: u8, usage: u8 },
    Fields(Vec<String>),
    Nobody(u64),
    Bytes(Vec<u8>),
}

fuzz_target!(|input: (Vec<Line>, bool)| {
    let (lines, is_imported) = input;
    let mut text = format!("{HEADER}\n").into_bytes();
    for line in &lines {
        match line {
            Line::Row { at, user, pid, gpu, usage } => {
                text.extend(format!("{at},{user},{pid},{gpu},{usage}\n").bytes());
            }
            Line::Fields(fields) => text.extend((fields.join(",") + "\n").bytes()),
            Line::Nobody(at) => text.extend(format!("{at},-,-,-,0\n").bytes()),
            Line::Bytes(bytes) => text.extend(bytes),
        }
    }
    let parsed = parse(&text).expect("it begins with the header");
    let mut again = format!("{HEADER}\n");
    for row in &parsed.rows {
        push(&mut again, row);
    }
    assert_eq!(parse(again.as_bytes()).expect("it begins with the header").rows, parsed.rows);
    if is_imported {
        import(&parsed.rows);
    }
});

fn import(rows: &[Row]) {
    let rows = rows.iter().filter_map(|row| {
        let Holder { user, pid, gpu, usage } = row.holder.clone()?;
        let at = Timestamp::from_second(row.timestamp).expect("a sane time");
        Some(StatsRow { at, user, pid, gpu, usage: usage? })
    });
    let directory = directory();
    let path = directory.path().join("gua.db");
    let day = StatsDay {
        path: directory.path().join("20261031_gpu_stats.csv"),
        date: jiff::civil::date(2026, 10, 31),
        interval: StatsInterval::Usual(Duration::from_secs(300)),
        rows: rows.collect(),
    };
    let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).expect("a new history");
    for again in [Again::Continue, Again::Continue, Again::Replace] {
        let _ = import_day(&mut store, &day, again, Timestamp::UNIX_EPOCH, &mut |_| ControlFlow::Continue(()));
    }
    store.close().expect("closed");
    let history = gua_store::History::open(&path).expect("it is there");
    let found = history.check(|_| {}).expect("it can be checked");
    assert!(found.is_clean(), "{found:?}");
}
