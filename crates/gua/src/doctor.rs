//! `gua doctor`: looks at this machine and says what gua can see, and what stands in its way.
//!
//! Read-only: nothing is created or changed, and nobody contacted but the board of an enrolled host. Every step has a time limit, so a sick driver or a dead file
//! server costs its own verdict and not the others'.

pub mod cards;
pub mod check;
pub mod checks;
mod checks_card;
mod checks_claims;
mod checks_driver;
mod checks_host;
mod checks_link;
mod checks_store;
pub mod facts;
#[cfg(test)]
mod fixture;
mod page;
pub mod plan;
pub mod render;
pub mod sample_json;
pub mod smi;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use gua_collector::board::cloud_file::LoadError;
use gua_collector::board::{CallError, EnrolmentError, Limits};
use gua_probe::clock;
use gua_probe::host::collector::Running;
use gua_probe::host::mount::Mount;
use gua_probe::host::{self, HostRoot};
use gua_wire::server_url::Scheme;
use jiff::tz::TimeZone;

use crate::cli::DoctorArgs;
use crate::config::kind::Home;
use crate::config::{self, FileState, Loaded, Settings, Source};
use crate::failure::{Exit, Failure};
use crate::{cloud, driver, manual, output};
use cards::Terms;
use facts::{
    Answer, Choice, Claims, Enrolled, Facts, Fault, FileSystem, History, Link, NamedLibrary,
    Presence, Reach,
};
use render::{Findings, Layout};

/// How long `nvidia-smi`, and a file system, may take.
const LIMIT: Duration = Duration::from_secs(3);

/// How long the board may take.
const BOARD_LIMITS: Limits = Limits {
    connect: Duration::from_secs(3),
    silence: Duration::from_secs(3),
    whole: Duration::from_secs(5),
};

/// A terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// Looks, judges and prints. Findings are no failure, except for a strict caller.
pub fn run(args: &DoctorArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    if args.sample {
        let shown = sample(loaded)?;
        output::raw(render::pretty(&shown).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = gather(&HostRoot::real(), loaded);
    let checks = checks::all(&facts);
    let plan = plan::plan(&facts, &checks);
    let terms = Terms {
        thresholds: facts.thresholds,
        ticks_per_second: facts.ticks_per_second,
    };
    let cards = facts
        .driver
        .as_ref()
        .ok()
        .map(|sample| cards::cards(sample, &terms));
    let findings = Findings {
        at: &facts.now,
        checks: &checks,
        cards: cards.as_deref(),
        plan: &plan,
        history: &facts.history,
    };
    if args.json {
        output::raw(render::json(&findings).as_bytes())?;
    } else {
        output::data(&render::text(&findings, layout()))?;
    }
    let is_content = !args.strict || plan::is_sound(&plan, &checks);
    Ok(if is_content {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

/// One sample for a program or a bug report, which must not be judged by other settings than the ones that were meant.
fn sample(loaded: &Loaded) -> anyhow::Result<serde_json::Value> {
    if let Some(first) = loaded.problems.first() {
        return Err(
            Failure::usage(format!("the configuration has mistakes: {first}"))
                .hint("`gua config check` lists every mistake")
                .into(),
        );
    }
    let library = named_library(&loaded.settings);
    let sample = driver::sample(&mut driver::reader(&loaded.settings)).map_err(|fault| {
        match checks_driver::absent(&fault, library.as_ref()) {
            Some(library) => Failure {
                exit: Exit::Failed,
                message: library.fate(),
                hint: Some(format!("correct {} or unset it", library.source)),
            }
            .into(),
            None => anyhow::Error::from(fault),
        }
    })?;
    Ok(sample_json::sample(&sample, &loaded.settings.thresholds()))
}

fn layout() -> Layout {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return Layout::Lines;
    }
    let width = rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
    Layout::Columns(if width == 0 { USUAL_WIDTH } else { width })
}

fn gather(root: &HostRoot, loaded: &Loaded) -> Facts {
    let mounts = host::mount::mounts(root);
    let search_path = loaded.inputs.variable("PATH");
    Facts {
        now: clock::now().to_zoned(TimeZone::system()),
        kernel: host::kernel(),
        time_keeping: host::time::time_keeping(root),
        surroundings: host::namespace::surroundings(root),
        driver_pids: loaded.settings.driver.pids.clone(),
        hiding: host::mount::hiding(&mounts, &root.proc),
        privilege: host::privilege::privilege(root),
        devices: host::device::devices(root),
        module: host::driver::kernel_module(root),
        collectors: collectors(root),
        configuration: loaded.problems.iter().map(ToString::to_string).collect(),
        unreadable_files: unreadable_files(loaded),
        claims: claims(root, &loaded.settings),
        link: link(loaded),
        history: history(loaded, &mounts),
        commands: manual::tree()
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect(),
        thresholds: loaded.settings.thresholds(),
        ticks_per_second: host::time::ticks_per_second(),
        library: named_library(&loaded.settings),
        // One after the other: some drivers have been brought down by two programs asking at once.
        smi: smi::ask(find_smi(search_path), LIMIT),
        driver: driver::sample(&mut driver::reader(&loaded.settings)),
    }
}

/// Where claims stand. Asked as the commands ask it.
fn claims(root: &HostRoot, settings: &Settings) -> Claims {
    let dir = crate::claims::directory(settings);
    Claims {
        place: dir
            .map(|dir| dir.path().to_owned())
            .map_err(|error| gua_collector::chain::chain(&error)),
        remove_ipc: host::logind::remove_ipc(root),
    }
}

/// How the board answers, where this host is enrolled at one. Otherwise nobody is contacted.
fn link(loaded: &Loaded) -> Link {
    let path = loaded.settings.cloud.config.value.clone();
    let mut enrolment = cloud::enrolment(loaded);
    if !enrolment.file().is_there() {
        return Link::NotEnrolled;
    }
    let enrolled = match enrolment.current() {
        Ok(enrolled) => enrolled,
        Err(error) => {
            return Link::Unusable {
                path,
                why: gua_collector::chain::chain(&error),
                fault: match error {
                    EnrolmentError::Load(LoadError::Faulty { .. }) => Fault::Contents,
                    EnrolmentError::Load(_) => Fault::Unreadable,
                    EnrolmentError::Endpoint(_) => Fault::Endpoint,
                },
            };
        }
    };
    let mode = std::fs::metadata(&path).ok().map(|facts| facts.mode());
    let url = &enrolled.config.server_url;
    let named = cloud::named(&enrolled);
    let is_exposed = url.scheme() == Scheme::Http && !url.is_loopback();
    let asked = Arc::clone(&enrolled);
    let answer = within(BOARD_LIMITS.whole + LIMIT, move || {
        asked.client.ask(&asked.config, BOARD_LIMITS)
    });
    let answer = match answer {
        None => Answer::None("it did not answer in time".to_owned()),
        Some(Ok(())) => Answer::Accepted,
        Some(Err(CallError::Refused {
            status: 401 | 403, ..
        })) => Answer::Denied,
        // A board from before the archive: it is there, and does not know the question.
        Some(Err(CallError::Refused {
            status: 404 | 405, ..
        })) => Answer::Unasked,
        Some(Err(error)) => Answer::None(gua_collector::chain::chain(&error)),
    };
    Link::Enrolled(Enrolled {
        path,
        named,
        mode,
        is_exposed,
        answer,
    })
}

fn collectors(root: &HostRoot) -> Option<Vec<Running>> {
    let root = root.clone();
    within(LIMIT, move || host::collector::collectors(&root))
}

fn find_smi(search_path: Option<&OsStr>) -> Option<PathBuf> {
    let search_path = search_path?.to_owned();
    within(LIMIT, move || smi::find(&search_path)).flatten()
}

/// The library that a setting names, other than the usual one. A bare name is looked up by the loader, so its absence cannot be told.
fn named_library(settings: &Settings) -> Option<NamedLibrary> {
    let setting = &settings.driver.library;
    let source = match &setting.source {
        Source::Default => return None,
        Source::Environment(name) => (*name).to_owned(),
        other => other.to_string(),
    };
    let path = setting.value.clone();
    if path == Settings::defaults(&Home(None)).driver.library.value {
        return None;
    }
    let has_directory = path.as_os_str().as_encoded_bytes().contains(&b'/');
    let asked = path.clone();
    let presence = match within(LIMIT, move || asked.exists()) {
        Some(true) => Presence::Present,
        Some(false) if has_directory => Presence::Absent,
        Some(false) | None => Presence::Unknown,
    };
    Some(NamedLibrary {
        path: path.to_string_lossy().into_owned(),
        source,
        presence,
    })
}

/// Configuration files that are there, and not for us.
fn unreadable_files(loaded: &Loaded) -> Vec<PathBuf> {
    use rustix::fs::{Access, access};
    let faulty = loaded
        .files
        .iter()
        .filter(|file| file.state == FileState::Faulty);
    faulty
        .filter(|file| access(&file.path, Access::READ_OK) == Err(rustix::io::Errno::ACCESS))
        .map(|file| file.path.clone())
        .collect()
}

fn history(loaded: &Loaded, mounts: &[Mount]) -> History {
    let path = loaded.settings.history.db.value.clone();
    let mount = std::path::absolute(&path)
        .ok()
        .and_then(|path| host::mount::holding(mounts, &path));
    let file_system = mount.map(|mount| FileSystem {
        name: mount.kind.clone(),
        reach: if mount.is_network() {
            Reach::Network
        } else if mount.is_made_up() {
            Reach::Kernel
        } else {
            Reach::Local
        },
    });
    let choice = choice(&path, loaded.inputs.home.as_deref());
    let asked = path.clone();
    let spot = within(LIMIT, move || host::disk::spot(&asked));
    History {
        path,
        choice,
        spot,
        file_system,
    }
}

/// Paths are compared as text, component by component: `//` and `/./` count for nothing, links and `..` are kept.
fn choice(path: &Path, home: Option<&Path>) -> Choice {
    match home.map(config::default_db) {
        Some(default) if default == path => Choice::Default,
        _ => Choice::Custom,
    }
}

/// Does something that may never come back on a thread of its own. What is too late is left behind.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_path_is_told_by_its_text() {
        let check = |path: &str, expected| {
            assert_eq!(
                choice(Path::new(path), Some(Path::new("/home/ada"))),
                expected,
                "{path}"
            );
        };
        check("/home/ada/.gua/gua.db", Choice::Default);
        check("/home//ada/./.gua/gua.db", Choice::Default);
        check("/home/ada/../ada/.gua/gua.db", Choice::Custom);
        check("/home/bob/.gua/gua.db", Choice::Custom);
        check("gua.db", Choice::Custom);
        assert_eq!(choice(Path::new("/x"), None), Choice::Custom);
    }

    #[test]
    fn work_that_never_ends_is_left_behind() {
        let (_keep, wait) = mpsc::channel::<()>();
        assert_eq!(
            within(Duration::from_millis(10), move || wait.recv().is_ok()),
            None
        );
        assert_eq!(within(LIMIT, || 7), Some(7));
    }
}
