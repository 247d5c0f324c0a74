//! Limits in a file: accepted values, and the text that editing preserves.

use std::path::Path;

use super::*;
use crate::edit::edit;
use crate::{Settings, file};

const FILE: &str = "# mine\n[states]\nheld_mb = 50 # less\n\n# for ada\n[[quota]]\nuser = \"ada\"\nheld = \"10h\" # for now\nper = \"month\"\n\n# the end\n";
const HOUR: u64 = 3_600_000_000;

fn home() -> Home {
    Home(Some("/home/ada".into()))
}

fn limit(subject: Subject, measure: Measure, per: Term, most: u64) -> Limit {
    Limit {
        sharing: usual_sharing(&subject),
        subject,
        measure,
        per,
        most,
    }
}

/// Edits `before`; the editor itself checks that the result is valid.
#[track_caller]
fn check(before: &str, change: impl FnOnce(&mut Document), after: &str) {
    let edited = edit(before, Path::new("f"), &home(), |document| {
        change(document);
        Ok(())
    });
    assert_eq!(edited.unwrap().as_deref().unwrap_or(before), after);
}

#[track_caller]
fn check_mistakes(table: &str, expected: &[&str]) {
    let mut settings = Settings::defaults(&home());
    let text = format!("[[quota]]\n{table}\n");
    let problems = file::apply(&mut settings, text.as_bytes(), Path::new("f"), &home());
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(messages, expected, "{table}");
    assert_eq!(settings.quotas.is_empty(), !expected.is_empty(), "{table}");
}

#[test]
fn a_limit_is_changed_in_its_place_and_every_comment_stays() {
    let ada = || Subject::User("ada".to_owned());
    check(
        FILE,
        |document| {
            set(
                document,
                &limit(ada(), Measure::Held, Term::Month, 20 * HOUR),
            )
            .unwrap();
        },
        &FILE.replace("10h", "20h"),
    );
    check(
        FILE,
        |document| {
            let energy = limit(ada(), Measure::Energy, Term::Month, 180_000_000_000);
            set(document, &energy).unwrap();
        },
        &FILE.replace("per = \"month\"\n", "per = \"month\"\nenergy = \"50kWh\"\n"),
    );
}

#[test]
fn another_limit_is_another_table_and_removing_it_restores_the_file() {
    let students = Subject::Group("students".to_owned());
    let week = limit(
        students.clone(),
        Measure::IdleHeld,
        Term::Rolling(Duration::from_secs(604_800)),
        HOUR / 2,
    );
    let with = "[[quota]]\ngroup = \"students\"\nidle_held = \"30m\"\nper = \"7d\"\n";
    check("", |document| set(document, &week).unwrap(), with);
    check(
        with,
        |document| assert_eq!(remove(document, &students, None, None), 1),
        "",
    );
    check(
        FILE,
        |document| {
            set(document, &week).unwrap();
            assert_eq!(remove(document, &students, Some(Measure::Held), None), 0);
            assert_eq!(remove(document, &students, None, Some(Term::Week)), 0);
            assert_eq!(remove(document, &students, None, Some(week.per)), 1);
        },
        FILE,
    );
}

#[test]
fn an_edit_that_would_break_the_file_is_refused() {
    let twice =
        "[[quota]]\nheld = \"1h\"\nper = \"day\"\n[[quota]]\nheld = \"2h\"\nper = \"day\"\n";
    let more = limit(Subject::Everyone, Measure::Charged, Term::Day, HOUR);
    let change = |document: &mut Document| set(document, &more);
    for (text, message) in [
        (
            twice,
            "the file was not changed: f:5:1: quota: this limit is set twice in this file",
        ),
        (
            "quota = [{held = \"1h\", per = \"day\"}]\n",
            "`quota` is an inline array; write each row as [[quota]]",
        ),
        ("[", "`f` is not TOML and was not changed"),
    ] {
        let error = edit(text, Path::new("f"), &home(), change).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn every_mistake_in_a_limit_is_reported_with_its_place() {
    check_mistakes("held = \"1h\"\nper = \"day\"", &[]);
    check_mistakes(
        "per = \"day\"",
        &["f:1:1: quota: nothing is limited; write held, idle_held, charged or energy"],
    );
    check_mistakes(
        "held = \"1h\"",
        &["f:1:1: quota: per is missing; write per = \"month\""],
    );
    check_mistakes(
        "usr = \"ada\"\nheld = 1\nenergy = \"5\"\nper = \"1m\"",
        &[
            "f:2:1: unknown key `usr` in [[quota]]; did you mean `user`?",
            "f:3:8: quota.held: expected a text in quotes",
            "f:4:10: quota.energy: expected an energy such as 50kWh, found `5`",
            "f:5:7: quota.per: expected day, week, month, or a duration of 15m or more such as 30d, found `1m`",
        ],
    );
    check_mistakes(
        "user = \"ada\"\ngroup = \"x\"\nshare = \"all\"\nheld = \"1h\"\nper = \"day\"",
        &[
            "f:3:9: quota: a limit is for a user or for a group, not for both",
            "f:4:9: quota.share: expected each or together, found `all`",
        ],
    );
    check_mistakes(
        "user = \"\"\nheld = \"1h\"\nper = \"day\"",
        &["f:2:8: quota.user: `` is not a valid name"],
    );
}
