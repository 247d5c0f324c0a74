//! `gua doctor`: looks at this machine and says what gua can see, and what stands in its way.
//!
//! Read-only: nothing is created, changed or contacted. Every step has a time limit, so a sick driver or a dead file
//! server costs its own verdict and not the others'.

pub mod check;
pub mod checks;
mod checks_card;
mod checks_driver;
mod checks_host;
mod checks_store;
pub mod facts;
#[cfg(test)]
mod fixture;
pub mod plan;
pub mod render;
pub mod sample_json;
pub mod smi;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host::collector::Running;
use gua_probe::host::mount::Mount;
use gua_probe::host::{self, HostRoot};
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::{Reader, ReaderOptions};
use jiff::tz::TimeZone;

use crate::cli::DoctorArgs;
use crate::config::{self, Loaded, Settings, Source};
use crate::failure::Exit;
use crate::output;
use facts::{Choice, Facts, FileSystem, History, Reach};
use render::{Findings, Layout};

/// How long `nvidia-smi`, and a file system, may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Looks, judges and prints. Findings are no failure, except for a strict caller.
pub fn run(args: &DoctorArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    if args.sample {
        let sample = read_driver(&loaded.settings)?;
        let shown = sample_json::sample(&sample, &loaded.settings.thresholds());
        output::raw(render::pretty(&shown).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = gather(&HostRoot::real(), loaded);
    let checks = checks::all(&facts);
    let plan = plan::plan(&facts, &checks);
    let findings = Findings {
        at: &facts.now,
        checks: &checks,
        plan: &plan,
        history: &facts.history,
    };
    if args.json {
        output::raw(render::json(&findings).as_bytes())?;
    } else {
        let layout = if std::io::stdout().is_terminal() {
            Layout::Columns
        } else {
            Layout::Lines
        };
        output::data(&render::text(&findings, layout))?;
    }
    let is_content = !args.strict || plan::is_sound(&plan, &checks);
    Ok(if is_content {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

fn gather(root: &HostRoot, loaded: &Loaded) -> Facts {
    let mounts = host::mount::mounts(root);
    let search_path = loaded.inputs.variable("PATH");
    Facts {
        now: clock::now().to_zoned(TimeZone::system()),
        kernel: host::kernel(),
        time_keeping: host::time::time_keeping(root),
        surroundings: host::namespace::surroundings(root),
        hiding: host::mount::hiding(&mounts, &root.proc),
        privilege: host::privilege::privilege(root),
        devices: host::device::devices(root),
        module: host::driver::kernel_module(root),
        collectors: collectors(root),
        configuration: loaded.problems.iter().map(ToString::to_string).collect(),
        history: history(loaded, &mounts),
        // One after the other: some drivers have been brought down by two programs asking at once.
        smi: smi::ask(find_smi(search_path), LIMIT),
        driver: read_driver(&loaded.settings),
    }
}

fn collectors(root: &HostRoot) -> Option<Vec<Running>> {
    let root = root.clone();
    within(LIMIT, move || host::collector::collectors(&root))
}

fn find_smi(search_path: Option<&OsStr>) -> Option<PathBuf> {
    let search_path = search_path?.to_owned();
    within(LIMIT, move || smi::find(&search_path)).flatten()
}

fn read_driver(settings: &Settings) -> Result<Sample, DriverFault> {
    let driver = &settings.driver;
    // Without a wish the probe knows the name itself, and says so when it is not found.
    let library = (driver.library.source != Source::Default).then(|| driver.library.value.clone());
    let probe = ProbeOptions {
        library,
        ..ProbeOptions::default()
    };
    let options = ReaderOptions::this_program(probe, driver.deadline.value);
    Reader::new(options).sample()
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
