//! Screens as text, compared with snapshots: `INSTA_UPDATE=always` rewrites them after a wanted change.

use std::time::Duration;

use gua_model::sample::ThrottleReasons;
use gua_model::{Bytes, Gpu, Missing, Percent, Pid, Place, ProcessKind};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::app::App;
use crate::app::fixture::{app, at, gpu, instance, process, sample_of};
use crate::plain;
use crate::surroundings::{HostLoad, ProcessUse, Surroundings};
use crate::terminal::Palette;
use crate::timeline::{Moment, Source};
use crossterm::event::KeyCode as Key;

use super::draw;

/// Returns what a terminal of this size shows.
fn picture(app: &mut App, (width, height): (u16, u16), now: Timestamp) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(app, area, frame.buffer_mut(), now);
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let mut lines = Vec::new();
    for y in 0..height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = crate::format::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

#[track_caller]
fn check(app: &mut App, size: (u16, u16), name: &str) {
    let shown = picture(app, size, at(1100));
    insta::assert_snapshot!(name, shown);
}

/// A minute of three GPUs: one busy, one that became idle halfway, one free.
fn laboratory() -> App {
    let mut app = app();
    for second in 1041..=1100 {
        let wave = u32::try_from((second + 13) % 20).unwrap() * 5;
        let rests = if second < 1070 { 64 } else { 0 };
        let mut trainer = process(4711, "ada", 40_210);
        trainer.sm_util = Ok(Percent::new(wave));
        let mut busy = gpu(0, "GPU-a", Ok(wave), &[(4711, "ada", 40_210)]);
        if let Ok(identity) = &mut trainer.identity {
            identity.workload.job = "90211".parse().ok();
        }
        busy.processes = vec![trainer];
        let mut desktop = process(1200, "gdm", 128);
        desktop.kind = ProcessKind::Graphics;
        let mut free = gpu(2, "GPU-c", Ok(0), &[]);
        free.processes = vec![desktop];
        let notebook = gpu(
            1,
            "GPU-b",
            Ok(rests),
            &[(808, "bob", 11_264), (809, "cleo", 300)],
        );
        app.take_sample(sample_of(second, vec![busy, notebook, free]));
    }
    app
}

#[test]
fn a_laboratory_on_80_by_24() {
    check(&mut laboratory(), (80, 24), "laboratory-80x24");
}

#[test]
fn a_laboratory_on_20_by_10() {
    check(&mut laboratory(), (20, 10), "laboratory-20x10");
}

#[test]
fn a_laboratory_on_200_by_60() {
    check(&mut laboratory(), (200, 60), "laboratory-200x60");
}

/// The laboratory with memory errors on its second GPU and what the host says about its processes.
fn hospital() -> App {
    let mut app = laboratory();
    let index = app.timeline.last_index().unwrap();
    let mut sample = app.timeline.get(index).unwrap().sample.clone();
    sample.at = at(1101);
    sample.gpus[1].ecc_uncorrected = Ok(3);
    sample.gpus[1].throttle = Ok(ThrottleReasons(0x40));
    // One process of ada on two GPUs.
    let trainer = sample.gpus[0].processes[0].clone();
    sample.gpus[2].processes.push(trainer);
    app.take_sample(sample);
    let processes = app.newest_processes().into_iter().map(|key| {
        let found = ProcessUse {
            parent: Pid(1),
            cpu_percent: Some(key.pid.0 / 10),
            memory: Bytes::from_mb(3000),
            command: format!("python3 train.py --config run-{}.toml", key.pid),
        };
        (key, found)
    });
    app.take_surroundings(Surroundings {
        processes: processes.collect(),
        host: HostLoad {
            cpu_percent: Some(42),
            load: Some(407),
            memory: Some((Bytes::from_mb(120_000), Bytes::from_mb(515_000))),
        },
    });
    app
}

#[test]
fn faults_owners_jobs_and_the_host_at_80_and_140_columns() {
    for size in [(80, 24), (140, 40)] {
        let name = format!("hospital-{}x{}", size.0, size.1);
        let shown = picture(&mut hospital(), size, at(1101));
        insta::assert_snapshot!(name, shown);
        for text in [
            "ECC 3, hot",
            "throttled: hw-thermal",
            "bob",
            "host",
            "python3 train.py",
            "0,2",
        ] {
            assert!(shown.contains(text), "{text} in\n{shown}");
        }
    }
    let mut app = hospital();
    app.key(Key::Char('d'));
    let shown = picture(&mut app, (80, 24), at(1101));
    insta::assert_snapshot!("hospital-one-line-80x24", shown);
    let line = shown.lines().find(|line| line.starts_with('1')).unwrap();
    assert!(line.contains("bob") && line.contains("ECC 3"), "{line}");
    assert!(line.contains("0%↓"), "{line}");
}

/// The sequences are the same on light and dark backgrounds; `gua_model::palette` tests that both can read them.
#[test]
fn colours_have_one_meaning_at_80_and_140_columns() {
    for width in [80, 140] {
        let mut app = hospital();
        app.setup.palette = Palette::Colour;
        let shown = plain::snapshot(&mut app, width, at(1101)).replace('\u{1b}', "^");
        insta::assert_snapshot!(format!("colours-{width}"), shown);
    }
}

#[test]
fn the_past_has_no_host_and_no_command_lines() {
    let mut app = hospital();
    app.key(Key::Left);
    let shown = picture(&mut app, (100, 24), at(1101));
    assert!(
        !shown.contains("train.py") && !shown.contains("\nhost"),
        "{shown}"
    );
}

#[test]
fn curves_begin_with_the_recorded_past() {
    let recorded = |second| Moment {
        sample: sample_of(second, vec![gpu(0, "GPU-a", Ok(100), &[])]),
        interval: Duration::from_secs(30),
        source: Source::Recorded,
    };
    let mut app = app();
    app.take_sample(sample_of(5000, vec![gpu(0, "GPU-a", Ok(100), &[])]));
    app.take_past(vec![recorded(1000), recorded(4940), recorded(4970)]);
    let shown = picture(&mut app, (80, 10), at(5000));
    assert!(shown.contains("████████████"), "{shown}");
    assert_eq!(
        app.timeline.first_at(),
        Some(at(4940)),
        "not older than 15 minutes"
    );
    assert!(!shown.contains("no older samples"), "{shown}");
}

#[test]
fn the_people_of_a_laboratory() {
    let mut app = laboratory();
    app.key(Key::Char('u'));
    check(&mut app, (80, 16), "people");
}

#[test]
fn a_signal_is_confirmed_over_the_picture() {
    let mut app = laboratory();
    app.key(Key::Char('x'));
    check(&mut app, (80, 24), "confirm");
}

#[test]
fn no_gpu_at_all() {
    let mut app = app();
    app.take_sample(sample_of(1100, Vec::new()));
    check(&mut app, (60, 8), "empty");
}

#[test]
fn a_lost_gpu_says_so_and_shows_no_zero() {
    let mut app = app();
    let lost = Gpu::without_readings("GPU-lost".parse().unwrap(), 1, Missing::Gone);
    app.take_sample(sample_of(1100, vec![gpu(0, "GPU-a", Ok(45), &[]), lost]));
    check(&mut app, (80, 14), "lost");
}

#[test]
fn instances_are_listed_under_their_gpu() {
    let mut app = app();
    let mut parent = gpu(0, "GPU-a", Err(Missing::Unsupported), &[]);
    parent.place = Place::Parent { instances: 2 };
    let gpus = vec![
        parent,
        instance("GPU-a", 2, &[(31, "ada", 20_480)]),
        instance("GPU-a", 9, &[]),
        gpu(1, "GPU-b", Ok(88), &[(32, "bob", 4096)]),
    ];
    app.take_sample(sample_of(1100, gpus));
    check(&mut app, (80, 16), "mig");
}

#[test]
fn twenty_columns_show_the_utilisation_beside_instances_too() {
    let mut app = app();
    let mut parent = gpu(0, "GPU-a", Err(Missing::Unsupported), &[]);
    parent.place = Place::Parent { instances: 1 };
    let gpus = vec![
        parent,
        instance("GPU-a", 2, &[(31, "ada", 20_480)]),
        gpu(1, "GPU-b", Ok(88), &[(32, "bob", 4096)]),
        gpu(2, "GPU-c", Ok(0), &[]),
    ];
    app.take_sample(sample_of(1100, gpus));
    check(&mut app, (20, 12), "mig-20x12");
    for _ in 0..2 {
        app.key(Key::Char('d'));
    }
    let shown = picture(&mut app, (80, 16), at(1100));
    assert!(shown.contains("in 1 instance ·"), "{shown}");
}

#[test]
fn one_gpu_that_does_not_fit_is_one_more_gpu() {
    let mut app = app();
    let uuids = ["GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e"];
    let gpus = |count: usize| {
        let gpus = (0..).zip(&uuids[..count]);
        gpus.map(|(index, uuid)| gpu(index, uuid, Ok(5), &[]))
            .collect()
    };
    let mut hidden = |count: usize| {
        app.take_sample(sample_of(1100, gpus(count)));
        let shown = picture(&mut app, (80, 9), at(1100));
        let line = shown.lines().find(|line| line.contains(" more GPU"));
        line.unwrap_or_default()
            .split(':')
            .next()
            .map(str::to_owned)
    };
    assert_eq!(hidden(4).as_deref(), Some("1 more GPU"));
    assert_eq!(hidden(5).as_deref(), Some("2 more GPUs"));
}

#[test]
fn hidden_memory_is_not_zero_for_its_user() {
    let mut app = app();
    let mut gpu = gpu(
        0,
        "GPU-a",
        Ok(5),
        &[(31, "ada", 7), (32, "bob", 5), (33, "bob", 64)],
    );
    for process in &mut gpu.processes[..2] {
        process.memory = Err(Missing::Unsupported);
    }
    app.take_sample(sample_of(1100, vec![gpu]));
    app.key(Key::Char('u'));
    let shown = picture(&mut app, (80, 16), at(1100));
    let memory = |user: &str| {
        let line = shown.lines().rev().find(|line| line.starts_with(user));
        line.and_then(|line| line.split_whitespace().nth(3))
    };
    assert_eq!((memory("ada"), memory("bob")), (Some("-"), Some("64M+?")));
}

#[test]
fn a_hundred_gpus_are_scrolled() {
    let mut app = app();
    let names: Vec<String> = (0..100).map(|index| format!("GPU-{index}")).collect();
    let gpus = || {
        (0..)
            .zip(&names)
            .map(|(index, name)| gpu(index, name, Ok(index), &[(5000 + index, "ada", 900)]))
            .collect()
    };
    app.take_sample(sample_of(1100, gpus()));
    for _ in 0..200 {
        app.key(Key::Char('J'));
    }
    app.key(Key::End);
    check(&mut app, (80, 24), "hundred");
}

#[test]
fn long_hangul_names_keep_the_columns_in_line() {
    let mut app = app();
    let mut gpu = gpu(
        0,
        "GPU-a",
        Ok(3),
        &[(77, "김수한무거북이와두루미", 9000), (78, "이영희", 800)],
    );
    for process in &mut gpu.processes {
        if let Ok(identity) = &mut process.identity {
            identity.comm = Ok("학습프로그램".to_owned());
        }
    }
    app.take_sample(sample_of(1100, vec![gpu]));
    check(&mut app, (80, 14), "hangul");
}

#[test]
fn a_silent_driver_is_reported_over_the_last_picture() {
    let mut app = laboratory();
    let shown = picture(&mut app, (80, 24), at(1190));
    assert!(
        shown.contains("driver has not responded since 00:18:20 (1m30s)"),
        "{shown}"
    );
    assert!(shown.contains("idle-held"), "{shown}");
    app.take_fault("the driver did not answer within 10 s".to_owned(), at(1110));
    let shown = picture(&mut app, (100, 24), at(1190));
    assert!(
        shown.contains("since 00:18:20 (1m30s): the driver did not answer within 10 s"),
        "{shown}"
    );
}

#[test]
fn a_picture_before_the_first_answer_says_what_is_waited_for() {
    let shown = picture(&mut app(), (80, 5), at(1003));
    assert!(
        shown.contains("waiting for the driver's first response for 3s"),
        "{shown}"
    );
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = laboratory();
    for width in [0, 1, 2, 3, 5, 9, 17, 35, 63, 99, 300] {
        for height in [0, 1, 2, 3, 4, 6, 9, 14, 90] {
            for key in ['u', 'u', 't', 't', '?', '?', 'x'] {
                app.key(Key::Char(key));
                let mut buffer =
                    ratatui::buffer::Buffer::empty(ratatui::layout::Rect::new(0, 0, width, height));
                let area = *buffer.area();
                draw(&mut app, area, &mut buffer, at(1100));
            }
            app.key(Key::Esc);
        }
    }
}

#[test]
fn paper_shows_every_gpu_and_every_process_without_keys() {
    let shown = plain::snapshot(&mut laboratory(), 80, at(1100));
    insta::assert_snapshot!("paper", anstripped(&shown));
}

/// Removes the ANSI sequences.
fn anstripped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                letters.by_ref().find(|letter| *letter == 'm');
            }
            letter => plain.push(letter),
        }
    }
    let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}
