//! Settings from every layer, and the mistakes in them.

mod described;
mod mistakes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::Thresholds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::array::Layer;
use crate::kind::Home;
use crate::quota::stricter;
use crate::{ENTRIES, FileState, FlagValue, Inputs, Loaded, Settings, Source, describe, file};

const HOME: &str = "/home/ada";

/// Checks the mistakes that are reported for a user's file with this text.
fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
    let home = Home(Some(HOME.into()));
    let mut settings = Settings::defaults(&home);
    let problems = file::apply(&mut settings, text.as_ref(), Path::new("f"), &home);
    let reported: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        expected,
        "{}",
        String::from_utf8_lossy(text.as_ref())
    );
}

/// The layers of one host in a temporary directory.
struct Layers {
    dir: TempDir,
    inputs: Inputs,
}

impl Layers {
    fn new(user: Option<&str>, system: Option<&str>, variables: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join(".gua")).unwrap();
        let system_file = dir.path().join("system.toml");
        if let Some(text) = user {
            fs::write(home.join(".gua/config.toml"), text).unwrap();
        }
        if let Some(text) = system {
            fs::write(&system_file, text).unwrap();
        }
        let variables = variables
            .iter()
            .map(|(name, value)| (*name, OsString::from(value)));
        let inputs = Inputs {
            variables: variables.collect(),
            home: Some(home),
            system_file,
        };
        Self { dir, inputs }
    }

    fn load(&self) -> Loaded {
        Loaded::from(&self.inputs, &[])
    }
}

#[test]
fn the_defaults_are_the_contract() {
    let settings = Settings::defaults(&Home(Some(HOME.into())));
    assert_eq!(settings.thresholds(), Thresholds::default());
    assert_eq!(
        settings.driver.library.value,
        PathBuf::from("libnvidia-ml.so.1")
    );
    assert_eq!(settings.driver.deadline.value, Duration::from_secs(10));
    assert_eq!(
        settings.history.db.value,
        PathBuf::from("/home/ada/.gua/gua.db")
    );
    assert!(
        settings
            .shown()
            .iter()
            .all(|shown| *shown.source == Source::Default)
    );
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_both_files() {
    let held = |mb: u32| format!("[states]\nheld_mb = {mb}\n");
    let layers = Layers::new(Some(&held(3)), Some(&held(4)), &[("GUA_HELD_MB", "2")]);
    let flag = FlagValue {
        flag: "--held".to_owned(),
        section: "states",
        key: "held_mb",
        value: "1".into(),
    };
    let user_file = layers.inputs.home.clone().unwrap().join(".gua/config.toml");

    let with = |drop: &dyn Fn(&mut Inputs), flags: &[FlagValue]| {
        let mut inputs = layers.inputs.clone();
        drop(&mut inputs);
        let loaded = Loaded::from(&inputs, flags);
        assert_eq!(loaded.problems, []);
        loaded.settings.states.held_mb
    };
    let none = |inputs: &mut Inputs| inputs.variables.clear();
    let flagged = with(&|_| {}, &[flag]);
    assert_eq!(
        (flagged.value, flagged.source),
        (1, Source::Flag("--held".to_owned()))
    );
    let from_variable = with(&|_| {}, &[]);
    assert_eq!(
        (from_variable.value, from_variable.source),
        (2, Source::Environment("GUA_HELD_MB"))
    );
    let from_user = with(&none, &[]);
    assert_eq!(
        (from_user.value, from_user.source),
        (
            3,
            Source::File {
                path: user_file,
                line: 2
            }
        )
    );
    let from_system = with(
        &|inputs| {
            inputs.variables.clear();
            inputs.home = Some("/nowhere".into());
        },
        &[],
    );
    let system = Source::File {
        path: layers.inputs.system_file.clone(),
        line: 2,
    };
    assert_eq!((from_system.value, from_system.source), (4, system));
}

#[test]
fn a_limit_of_the_user_takes_none_of_the_hosts_away() {
    let all = |hours: &str| format!("[[quota]]\nheld = \"{hours}\"\nper = \"day\"\n");
    let layers = Layers::new(Some(&all("90h")), Some(&all("3h")), &[]);
    let quotas = layers.load().settings.quotas;
    let found: Vec<_> = quotas
        .iter()
        .map(|quota| (quota.value.most / 3_600_000_000, quota.layer))
        .collect();
    assert_eq!(found, [(3, Layer::Host), (90, Layer::User)]);
    assert_eq!(stricter(&quotas, &quotas[1]), Some(&quotas[0]));
    assert_eq!(stricter(&quotas, &quotas[0]), None);
}

#[test]
fn an_alert_about_free_gpus_belongs_in_the_users_file() {
    let alert = "\n[[alert]]\nwhen = [\"free\"]\nto = \"write\"\n";
    let own = Layers::new(Some(alert), None, &[]);
    assert_eq!(own.load().problems, []);
    let host = Layers::new(None, Some(alert), &[]);
    let problem = host.load().problems[0].to_string();
    assert!(
        problem.contains(":2:1: alert: `free` works only"),
        "{problem}"
    );
}

#[test]
fn the_files_add_up_key_by_key() {
    let layers = Layers::new(
        Some("[states]\nheld_mb = 3\n"),
        Some("[states]\nactive_util = 20\nheld_mb = 9\n"),
        &[],
    );
    let states = layers.load().settings.states;
    assert_eq!(
        (states.held_mb.value, states.active_util.value.get()),
        (3, 20)
    );
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let layers = Layers::new(None, None, &[("GUA_HELD_MB", ""), ("GUA_CONFIG", "")]);
    let loaded = layers.load();
    assert_eq!(loaded.problems, []);
    assert_eq!(loaded.settings.states.held_mb.source, Source::Default);
    assert!(
        loaded
            .files
            .iter()
            .all(|file| file.state == FileState::Absent)
    );
}

#[test]
fn gua_config_names_a_file_instead_of_the_users() {
    let mut layers = Layers::new(Some("[states]\nheld_mb = 3\n"), None, &[]);
    let other = layers.dir.path().join("home/other.toml");
    fs::write(&other, "[states]\nactive_util = 50\n").unwrap();
    layers.inputs.variables = BTreeMap::from([("GUA_CONFIG", "~/other.toml".into())]);
    let states = layers.load().settings.states;
    assert_eq!(
        (states.held_mb.value, states.active_util.value.get()),
        (100, 50)
    );

    fs::remove_file(&other).unwrap();
    let problems = layers.load().problems;
    assert_eq!(
        problems.len(),
        1,
        "a file that was asked for has to be there"
    );
    assert!(
        problems[0]
            .to_string()
            .contains("other.toml: cannot be read"),
        "{}",
        problems[0]
    );
}

#[test]
fn a_bad_value_leaves_the_next_lower_layer_in_effect() {
    let layers = Layers::new(
        Some("[states]\nheld_mb = -1\n"),
        Some("[states]\nheld_mb = 7\n"),
        &[("GUA_HELD_MB", "x")],
    );
    let loaded = layers.load();
    assert_eq!(loaded.settings.states.held_mb.value, 7);
    assert_eq!(loaded.problems.len(), 2);
    assert_eq!(loaded.files[0].state, FileState::Faulty);
    assert_eq!(loaded.files[1].state, FileState::Fine);
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_and_not_a_default() {
    let layers = Layers::new(None, None, &[]);
    fs::create_dir(&layers.inputs.system_file).unwrap();
    let problems = layers.load().problems;
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0]
            .to_string()
            .contains("system.toml: cannot be read: it is a directory, not a file"),
        "{}",
        problems[0]
    );
}

#[test]
fn a_path_that_is_not_a_file_is_refused_at_once() {
    let pipe = tempfile::tempdir().unwrap();
    let pipe = pipe.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    for (path, kind) in [
        (Path::new("/dev/zero"), "a device"),
        (&pipe, "a pipe"),
        (Path::new("/"), "a directory"),
    ] {
        let path = path.to_str().unwrap();
        let layers = Layers::new(None, None, &[("GUA_CONFIG", path)]);
        assert_eq!(
            layers.load().problems[0].to_string(),
            format!("{path}: cannot be read: it is {kind}, not a file")
        );
    }
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let layers = Layers::new(Some(&"#".repeat((1 << 20) + 1)), None, &[]);
    assert!(
        layers.load().problems[0]
            .to_string()
            .ends_with("config.toml: is larger than 1 MiB, the maximum for a configuration file")
    );
}

#[test]
fn a_mistyped_variable_is_reported_with_the_nearest_name() {
    let reported = |name: &str| crate::inputs::unknown([OsString::from(name)].into_iter());
    for fine in ["GUA_HELD_MB", "GUA_CONFIG", "HELD_MB", "GUAC_X", "gua_db"] {
        assert!(reported(fine).is_empty(), "{fine}");
    }
    for (name, expected) in [
        (
            "GUA_HELDMB",
            "GUA_HELDMB: unknown variable; did you mean GUA_HELD_MB?",
        ),
        (
            "GUA_CONFG",
            "GUA_CONFG: unknown variable; did you mean GUA_CONFIG?",
        ),
        ("GUA_Q\u{1b}", "GUA_Q\\u{1b}: unknown variable"),
    ] {
        assert_eq!(reported(name), [expected]);
    }
}

#[test]
fn a_word_that_is_not_toml_is_reported_with_its_key_and_what_was_expected() {
    check(
        "[states]\ncount_graphics = yes # really\n",
        &["f:2:18: states.count_graphics: expected true or false, found `yes`"],
    );
    check(
        "states.active_util = ten\n",
        &["f:1:22: states.active_util: expected a whole number from 1 to 100, found `ten`"],
    );
    check(
        "[driver]\ndeadline = 10s\n[history]\ndb=/x/y\n",
        &[
            "f:2:12: driver.deadline: expected a duration from 50ms to 1h, such as 10s, found `10s` without quotes",
            "f:4:4: history.db: expected a path, found `/x/y` without quotes",
        ],
    );
}

#[test]
fn without_a_home_there_is_a_sentence_and_no_panic() {
    let mut layers = Layers::new(None, None, &[("GUA_DB", "~/x")]);
    layers.inputs.home = None;
    let reported: Vec<String> = layers
        .load()
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        reported,
        [
            "the home directory is unknown; set HOME",
            "GUA_DB: `~` cannot be expanded: the home directory is unknown"
        ]
    );
}

#[test]
fn a_tilde_leads_home_and_nowhere_else() {
    let cases = [
        ("~", Ok("/home/ada")),
        ("~/x", Ok("/home/ada/x")),
        ("~//x", Ok("/home/ada/x")),
        ("/~/x", Ok("/~/x")),
        ("x/~", Ok("x/~")),
        ("./~", Ok("./~")),
        (
            "~bob/x",
            Err("`~bob/x`: only ~ and ~/ are expanded; write the whole path".to_owned()),
        ),
    ];
    for (text, expected) in cases {
        let expanded = crate::kind::expand(text.as_ref(), &Home(Some(HOME.into())));
        assert_eq!(expanded, expected.map(PathBuf::from), "{text}");
    }
}
