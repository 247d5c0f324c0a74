//! The daily CSV of gpu_stats, compared with golden files: what we write, and what we read from files of others.

use gua_compat::gpu_stats::{Form, HEADER, Holder, Lines, Minute, Row, day_of, lines, parse, push};
use gua_model::{Missing, Percent, Place, Problem, Sample, Thresholds, Uid, User};
use gua_wire::snapshot;
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use crate::golden::check;
use crate::gpus::{process, sample};

fn at() -> Timestamp {
    "2026-11-16T02:44:34.554909Z".parse().unwrap()
}

fn three_gpus() -> Sample {
    sample(snapshot::Form::V1_4, at())
}

fn written(sample: &Sample, form: Form) -> Lines {
    let minute = Minute::of(sample.at, &TimeZone::UTC);
    lines(sample, form, minute, &Thresholds::default())
}

fn file(sample: &Sample, form: Form) -> String {
    format!("{}\n{}", form.header(), written(sample, form).text)
        .trim_end()
        .to_owned()
}

#[test]
fn a_sample_is_written_as_gpu_stats_writes_it() {
    check("gpu_stats.csv", &file(&three_gpus(), Form::Classic));
}

#[test]
fn the_full_format_has_every_process_and_every_gpu() {
    let mut sample = three_gpus();
    sample.gpus[2].processes.clear();
    sample.gpus[1].util = Err(Missing::Unsupported);
    sample.gpus[1].processes[0].memory = Err(Missing::Unsupported);
    check("gpu_stats_full.csv", &file(&sample, Form::Full));
}

#[test]
fn without_processes_one_row_of_dashes_is_written() {
    let mut sample = three_gpus();
    sample.gpus.iter_mut().for_each(|gpu| gpu.processes.clear());
    assert_eq!(written(&sample, Form::Classic).text, "1794797040,-,-,-,0\n");
    // Not if a GPU could not be read or is lost: then it is unknown whether there are processes.
    sample.gpus[1].compute_list = Err(Missing::Failed);
    let written_lines = written(&sample, Form::Classic);
    assert_eq!(
        (written_lines.text.as_str(), written_lines.unread.as_slice()),
        ("", &[1][..])
    );
    sample.gpus[1].compute_list = Ok(());
    sample.problems.push(Problem {
        gpu: None,
        index: Some(7),
        call: "nvmlDeviceGetHandleByIndex".to_owned(),
        code: Some(15),
        why: Missing::Gone,
        text: "GPU is lost".to_owned(),
    });
    assert_eq!(written(&sample, Form::Classic).unread, [7]);
}

#[test]
fn values_that_made_gpu_stats_stop_cost_one_field() {
    let mut sample = three_gpus();
    sample.gpus.truncate(2);
    sample.gpus[0].util = Err(Missing::Unsupported);
    // The first process has ended between the two reads, and the second has a user without a name.
    let mut nameless = process(4321, Some(("x", "python")), 5);
    let own = User {
        uid: Uid(5005),
        name: None,
    };
    nameless.identity.as_mut().unwrap().own = Ok(own);
    let gone = process(77, None, 5);
    sample.gpus[0].processes = vec![gone.clone(), nameless];
    sample.gpus[1].processes = vec![gone];
    assert_eq!(
        written(&sample, Form::Classic).text,
        "1794797040,5005,4321,0,\n1794797040,unknown,77,1,2\n"
    );
}

#[test]
fn an_instance_is_listed_under_the_index_of_its_gpu() {
    let mut sample = three_gpus();
    sample.gpus.truncate(2);
    let parent = sample.gpus[0].uuid.clone();
    sample.gpus[0].processes.clear();
    sample.gpus[0].place = Place::Parent { instances: 1 };
    sample.gpus[0].util = Err(Missing::Unsupported);
    sample.gpus[0].compute_list = Err(Missing::Unsupported);
    sample.gpus[1].index = 0;
    sample.gpus[1].util = Percent::new(40).ok_or(Missing::Failed);
    sample.gpus[1].place = Place::Instance {
        parent,
        gpu_instance: Ok(1),
        compute_instance: Ok(0),
        slice: Err(Missing::Failed),
    };
    let written_lines = written(&sample, Form::Classic);
    assert_eq!(written_lines.text, "1794797040,bob,5678,0,\n");
    assert!(written_lines.unread.is_empty());
}

#[test]
fn a_timestamp_and_its_file_use_the_same_moment() {
    #[track_caller]
    fn check(zone: &str, at: &str, second: &str, file: &str) {
        let zone = TimeZone::posix(zone).unwrap();
        let minute = Minute::of(at.parse().unwrap(), &zone);
        let second: Timestamp = second.parse().unwrap();
        assert_eq!(minute.second, second.as_second());
        assert_eq!(Form::Classic.file_name(minute.day), file);
    }
    let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
    // The last moment of a day and the first of the next.
    check(
        berlin,
        "2026-11-15T22:59:59.999Z",
        "2026-11-15T22:59:00Z",
        "20261115_gpu_stats.csv",
    );
    check(
        berlin,
        "2026-11-15T23:00:00Z",
        "2026-11-15T23:00:00Z",
        "20261116_gpu_stats.csv",
    );
    // Both hours from two to three on the day that has them twice: different timestamps, one file.
    check(
        berlin,
        "2026-10-25T00:30:30Z",
        "2026-10-25T00:30:00Z",
        "20261025_gpu_stats.csv",
    );
    check(
        berlin,
        "2026-10-25T01:30:30Z",
        "2026-10-25T01:30:00Z",
        "20261025_gpu_stats.csv",
    );
    // A zone with a half-hour offset.
    check(
        "<+0545>-5:45",
        "2026-11-15T18:15:42Z",
        "2026-11-15T18:15:00Z",
        "20261116_gpu_stats.csv",
    );
}

#[test]
fn a_day_file_is_recognised_by_its_name_alone() {
    assert_eq!(day_of("20261115_gpu_stats.csv"), Some(date(2026, 11, 15)));
    for other in [
        "20261115_gpu_stats_full.csv",
        "20261315_gpu_stats.csv",
        "2026115_gpu_stats.csv",
        "+0261115_gpu_stats.csv",
        "gpu_stats.csv",
        "20261115_gpu_stats.csv.gz",
    ] {
        assert_eq!(day_of(other), None, "{other}");
    }
}

#[test]
fn a_broken_line_costs_only_itself_and_an_unterminated_last_line_is_not_used() {
    let text = format!(
        "{HEADER}\n1616584347,m_user,456815,1,90\n1616584647,-,-,-,0\nhello\n1616584947,m_user,x,1,90\n\
         1616584947,m_user,4,1,900\n{HEADER}\r\n1616585247,\"a,b\",7,0,\n\n1616585547,m_user,456815,1,9"
    );
    let parsed = parse(text.as_bytes()).unwrap();
    let row = |timestamp, user: &str, pid, gpu, usage| Row {
        timestamp,
        holder: Some(Holder {
            user: user.to_owned(),
            pid,
            gpu,
            usage,
        }),
    };
    assert_eq!(
        parsed.rows,
        [
            row(1_616_584_347, "m_user", 456_815, 1, Some(90)),
            Row {
                timestamp: 1_616_584_647,
                holder: None
            },
            row(1_616_585_247, "a,b", 7, 0, None),
        ]
    );
    let bad: Vec<String> = parsed
        .bad
        .iter()
        .map(|(line, why)| format!("{line}: {why}"))
        .collect();
    assert_eq!(
        bad,
        [
            "4: it has 1 field, and a row has 5",
            "5: `x` cannot be its pid",
            "6: `900` cannot be its usage",
        ]
    );
    assert_eq!(parsed.torn, Some(10));
    assert!(parse(b"timestamp,gpu\n1,2\n").is_err());
    assert!(parse(b"\xff\xfe\n").is_err());
    assert_eq!(parse(b"").unwrap().rows, []);
    assert_eq!(parse(b"timestamp,us").unwrap().torn, Some(1));
}

proptest! {
    #[test]
    fn written_rows_are_read_back(timestamp in 1_000_000_000i64..4_102_444_800, user in "[a-z,\"\\\\ .-]{2,12}", pid: u32, gpu in 0u32..4096, usage in prop::option::of(0u32..=100), nobody: bool) {
        let holder = (!nobody).then_some(Holder { user, pid, gpu, usage });
        let row = Row { timestamp, holder };
        let mut text = format!("{HEADER}\n");
        push(&mut text, &row);
        prop_assert_eq!(parse(text.as_bytes()).unwrap().rows, [row]);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let mut file = format!("{HEADER}\n").into_bytes();
        file.extend(bytes);
        let parsed = parse(&file).unwrap();
        prop_assert!(parsed.rows.len() + parsed.bad.len() <= file.len());
    }
}
