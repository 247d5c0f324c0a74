//! Effects of keys.

use gua_model::{Pid, Uid};

use super::fixture::{app, at, gpu, sample_of};
use super::{Action, App, Me, Overlay, Rights, Signal, View};
use crate::timeline::{Moment, Source};
use crossterm::event::{KeyCode as Key, KeyEvent, KeyModifiers};

fn watched() -> App {
    let mut app = app();
    for second in 1000..1010 {
        let gpus = vec![
            gpu(0, "GPU-a", Ok(50), &[(10, "ada", 100), (11, "bob", 9000)]),
            gpu(1, "GPU-b", Ok(0), &[(12, "ada", 5000)]),
        ];
        app.take_sample(sample_of(second, gpus));
    }
    app
}

/// Types letters, and names of other keys in angle brackets.
fn type_in(app: &mut App, text: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (key, length) = match rest.split_once('>') {
            Some((name, _)) if letter == '<' => {
                let key = match &name[1..] {
                    "esc" => Key::Esc.into(),
                    "enter" => Key::Enter.into(),
                    "left" => Key::Left.into(),
                    "right" => Key::Right.into(),
                    "down" => Key::Down.into(),
                    "tab" => Key::Tab.into(),
                    "back" => Key::Backspace.into(),
                    "c-c" => KeyEvent::new(Key::Char('c'), KeyModifiers::CONTROL),
                    "c-z" => KeyEvent::new(Key::Char('z'), KeyModifiers::CONTROL),
                    other => panic!("no key {other}"),
                };
                (key, name.len() + 1)
            }
            _ => (Key::Char(letter).into(), letter.len_utf8()),
        };
        actions.extend(app.key(key));
        rest = &rest[length..];
    }
    actions
}

fn pids(app: &App) -> Vec<u32> {
    app.process_rows().iter().map(|row| row.pid.0).collect()
}

#[test]
fn q_esc_and_control_c_quit_and_control_z_stops() {
    for (typed, expected) in [
        ("q", Action::Quit),
        ("<esc>", Action::Quit),
        ("<c-c>", Action::Quit),
        ("<c-z>", Action::Suspend),
        ("?<c-c>", Action::Quit),
        ("/a<c-c>", Action::Quit),
        ("x<c-c>", Action::Quit),
    ] {
        assert_eq!(type_in(&mut watched(), typed), [expected], "{typed}");
    }
}

#[test]
fn esc_leaves_one_thing_after_the_other() {
    let mut app = watched();
    assert_eq!(type_in(&mut app, "/ada<enter> "), []);
    assert_eq!(type_in(&mut app, "<esc>"), []);
    assert_eq!(app.filter, "");
    assert_eq!(type_in(&mut app, "<esc>"), []);
    assert_eq!(app.frozen, None);
    assert_eq!(type_in(&mut app, "?<esc>"), []);
    assert_eq!(type_in(&mut app, "<esc>"), [Action::Quit]);
}

#[test]
fn the_order_follows_the_column_and_turns() {
    let check = |typed: &str, expected: [u32; 3]| {
        let mut app = watched();
        type_in(&mut app, typed);
        assert_eq!(pids(&app), expected, "{typed}");
    };
    check("", [11, 10, 12]);
    check("r", [12, 11, 10]);
    check("s", [10, 11, 12]);
    check("ssS", [10, 11, 12]);
    check("ss", [10, 12, 11]);
    check("sss", [11, 12, 10]);
    check("sssr", [10, 12, 11]);
    check("S", [11, 10, 12]);
    let mut app = watched();
    type_in(&mut app, "sssssssss");
    assert_eq!(app.column, "gpu");
}

#[test]
fn a_filter_finds_users_names_numbers_and_gpus() {
    let check = |typed: &str, expected: &[u32]| {
        let mut app = watched();
        type_in(&mut app, &format!("/{typed}<enter>"));
        assert_eq!(pids(&app), expected, "{typed}");
    };
    check("ADA", &[10, 12]);
    check("gpu1", &[12]);
    check("11", &[11]);
    check("pyth", &[11, 10, 12]);
    check("nobody", &[]);
    check("adax<back>", &[10, 12]);
    check("q?x", &[]);
}

#[test]
fn views_turn_and_toggle() {
    let mut app = watched();
    for (typed, expected) in [
        ("u", View::Users),
        ("t", View::Tree),
        ("t", View::Processes),
        ("<tab>", View::Tree),
        ("<tab>", View::Users),
        ("<tab>", View::Processes),
    ] {
        type_in(&mut app, typed);
        assert_eq!(app.view, expected, "{typed}");
    }
}

#[test]
fn a_users_row_has_the_gpus_held_and_the_idle_ones() {
    let mut app = watched();
    type_in(&mut app, "u");
    let rows = app.user_rows();
    let ada = &rows[0];
    assert_eq!(
        (ada.user.as_str(), ada.gpus.len(), ada.processes),
        ("ada", 2, 2)
    );
    assert_eq!(ada.idle_held, ["1"]);
    assert_eq!(rows[1].user, "bob");
    assert_eq!(rows[1].idle_held, Vec::<String>::new());
}

#[test]
fn the_past_is_walked_step_by_step_and_live_is_where_it_ends() {
    let mut app = watched();
    let shown = |app: &App| app.shown().unwrap().sample.at.as_second();
    type_in(&mut app, "<left><left>");
    assert_eq!((shown(&app), app.frozen), (1007, Some(at(1007))));
    app.take_sample(sample_of(1010, Vec::new()));
    assert_eq!(shown(&app), 1007, "what comes in does not move it");
    type_in(&mut app, "<right><right><right><right>");
    assert_eq!((shown(&app), app.frozen), (1010, None));
    type_in(&mut app, " ");
    app.take_sample(sample_of(1011, Vec::new()));
    assert_eq!(shown(&app), 1010, "paused");
    type_in(&mut app, " ");
    assert_eq!(shown(&app), 1011);
}

#[test]
fn before_the_beginning_lies_the_recorded_history() {
    let mut app = watched();
    type_in(
        &mut app,
        "<left><left><left><left><left><left><left><left><left>",
    );
    assert_eq!(type_in(&mut app, "<left>"), [Action::LoadBefore(at(1000))]);
    assert_eq!(type_in(&mut app, "<left>"), [], "it was asked already");
    let recorded = |second| Moment {
        sample: sample_of(second, Vec::new()),
        interval: std::time::Duration::from_secs(30),
        source: Source::Recorded,
    };
    app.take_recorded(vec![recorded(930), recorded(960), recorded(990)]);
    assert_eq!(app.shown().unwrap().sample.at, at(990));
    type_in(&mut app, "<left>");
    assert_eq!(app.shown().unwrap().sample.at, at(960));
    type_in(&mut app, "[");
    assert_eq!(app.shown().unwrap().sample.at, at(930));
    assert_eq!(type_in(&mut app, "["), [Action::LoadBefore(at(930))]);
    app.take_recorded(Vec::new());
    assert!(
        app.notice
            .as_ref()
            .unwrap()
            .text
            .contains("no older samples")
    );
    type_in(&mut app, "n");
    assert_eq!(app.shown().unwrap().sample.at, at(1009));
    let mut without = watched();
    without.setup.has_history = false;
    assert_eq!(type_in(&mut without, "[["), []);
    assert!(without.notice.unwrap().text.contains("gua daemon"));
}

#[test]
fn a_signal_needs_a_confirmation() {
    let mut app = watched();
    // ada's smaller process on the first GPU is the second line.
    assert_eq!(type_in(&mut app, "jx"), []);
    assert!(matches!(&app.overlay, Overlay::Confirm(criteria) if criteria.pid == Pid(10)));
    assert_eq!(
        type_in(&mut app, "<enter>"),
        [],
        "enter is pressed by mistake"
    );
    let sent = type_in(&mut app, "<right>y");
    assert!(
        matches!(sent[..], [Action::Signal { signal: Signal::Interrupt, process }] if process.pid == Pid(10))
    );
    for typed in ["xn", "x<esc>", "xk<esc>", "xq"] {
        assert_eq!(type_in(&mut app, typed), [], "{typed}");
        assert_eq!(app.overlay, Overlay::None);
    }
    let sent = type_in(&mut app, "xky");
    assert!(matches!(
        sent[..],
        [Action::Signal {
            signal: Signal::Kill,
            ..
        }]
    ));
}

#[test]
fn nobody_elses_process_and_nothing_read_only_is_signalled() {
    let refused = |app: &mut App, typed: &str| {
        assert_eq!(type_in(app, typed), [], "{typed}");
        assert!(!matches!(app.overlay, Overlay::Confirm(_)));
        app.notice.clone().unwrap().text
    };
    assert!(refused(&mut watched(), "x").contains("belongs to bob"));
    assert!(refused(&mut watched(), "j x").contains("a past moment"));
    assert!(refused(&mut watched(), "ux").contains("select a process"));
    let mut app = watched();
    app.setup.rights = Rights::ReadOnly;
    assert!(refused(&mut app, "jx").contains("read-only"));
    app.setup.rights = Rights::Simulated;
    assert!(refused(&mut app, "x").contains("simulated processes cannot be signalled"));
    let mut root = watched();
    root.setup.rights = Rights::Own(Me {
        uid: Uid(0),
        owner: Uid(0),
    });
    assert!(refused(&mut root, "x").contains("not your process"));
    // Root that acts as an administrator must confirm, and sees the owner.
    let mut admin = watched();
    admin.setup.rights = Rights::Admin(Me {
        uid: Uid(0),
        owner: Uid(0),
    });
    assert_eq!(type_in(&mut admin, "x"), []);
    assert!(
        matches!(&admin.overlay, Overlay::Confirm(criteria) if !criteria.is_own && criteria.owner == "bob")
    );
    assert!(matches!(
        type_in(&mut admin, "y")[..],
        [Action::Signal { .. }]
    ));
}

#[test]
fn one_owns_what_runs_as_oneself_and_is_ones_own_doing() {
    let check = |(uid, login): (u32, u32), own: Option<u32>, owner: Option<u32>, expected: bool| {
        let me = Me {
            uid: Uid(uid),
            owner: Uid(login),
        };
        assert_eq!(
            me.owns(own.map(Uid), owner.map(Uid)),
            expected,
            "{uid} {login} {own:?} {owner:?}"
        );
    };
    check((1000, 1000), Some(1000), Some(1000), true);
    check((1000, 1000), Some(0), Some(1000), false);
    check((1000, 1000), Some(1000), Some(1001), false);
    check((1000, 1000), None, None, false);
    // Under sudo: root's processes, and those that the same person started.
    check((0, 1000), Some(0), Some(1000), true);
    check((0, 1000), Some(0), Some(0), true);
    check((0, 1000), Some(0), Some(1001), false);
    check((0, 0), Some(1000), Some(1000), false);
}
