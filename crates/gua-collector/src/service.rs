//! systemd units: the collector as a service of the host or of one user, the timers of `gua sync-once` and `gua csv`, and
//! the servers `gua serve` and `gua board serve`.
//!
//! Unit files are written here, and systemctl is called for everything else. Units that gua did not write are never changed.

mod board;
pub mod collector;
pub mod csv;
mod host_facts;
mod ownership;
mod place;
pub mod sync;
mod system_user;
mod systemctl;
mod unit;
mod units;
pub mod web;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_files::Untrusted;
use gua_model::alert::Sender;
use gua_model::failure::Failure;
use gua_probe::host::{HostRoot, mount};
use gua_probe::process::user_ids;
use gua_settings::Loaded;

pub use self::place::{Place, Scope};
use self::unit::Readers;

/// Directory of the host's units.
const SYSTEM_UNITS: &str = "/etc/systemd/system";

/// Whether a service of the host gets a copy of an enrolment when it starts.
pub(crate) fn has_copy_of(enrolment: &Path) -> bool {
    has_copy_in(Path::new(SYSTEM_UNITS), enrolment)
}

fn has_copy_in(units: &Path, enrolment: &Path) -> bool {
    let Ok(enrolment) = std::path::absolute(enrolment) else {
        return false;
    };
    let credential = unit::credential("cloud.json", &enrolment);
    [collector::NAME, sync::SERVICE].iter().any(|name| {
        fs::read_to_string(units.join(name)).is_ok_and(|text| text.contains(&credential))
    })
}

/// Options of an installation.
#[derive(Clone, Debug, Default)]
pub struct Install {
    /// Interval between ticks of the collector; `None` leaves it to the configuration.
    pub interval: Option<Duration>,
    /// Address on which the collector serves metrics.
    pub metrics: Option<SocketAddr>,
    /// Path of the history; `None` keeps that of the installed units.
    pub db: Option<PathBuf>,
    /// Users who may query the host's history; `None` keeps the installed units' setting.
    pub readable_by: Option<String>,
    /// Interval between pushes of the timer.
    pub every: Option<Duration>,
    /// Whether the collector pushes to the board.
    pub cloud: bool,
    /// Whether closed days are uploaded to the board's archive.
    pub archive: bool,
    /// Enable the unit without starting it.
    pub no_start: bool,
    /// Replace units that gua did not write.
    pub force: bool,
    /// Return the units instead of installing them.
    pub print: bool,
}

/// Output of a command about units.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub text: String,
    /// Notes for stderr.
    pub notes: String,
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        let notes = String::new();
        Self { text, notes }
    }
}

/// Path of this program on the system of the units.
fn this_program(place: &Place) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe();
    let program = program.map_err(Failure::because("cannot find the path of this program"))?;
    Ok(place.inside(program))
}

const INSTALL_FIRST: &str = "install the program where everyone can run it, for example with `install gua /usr/local/bin/`, and run that one";

/// Whether every user can reach and run a program.
fn is_runnable_by_others(program: &Path) -> bool {
    let allows = |path: &Path, bits: u32| {
        let facts = fs::metadata(path);
        facts.is_ok_and(|facts| facts.mode() & bits == bits)
    };
    let mut directories = program.ancestors().skip(1);
    allows(program, 0o005) && directories.all(|directory| allows(directory, 0o001))
}

/// Rejects a service of the host that another user could change: by its configuration, its driver library, its program or
/// another file that it uses. The service's user must be able to run the program.
fn safe_for_root(
    place: &Place,
    loaded: &Loaded,
    (program, user): (&Path, &str),
    files: &[&Path],
) -> Result<(), Failure> {
    loaded.safe_for_root()?;
    if place.is_image() {
        // The program and the files of an image are not on this system.
        return Ok(());
    }
    reject_changeable(files)?;
    let message = match gua_files::safe_for_root(program) {
        Err(error) => error.to_string(),
        Ok(()) if is_runnable_by_others(program) => return Ok(()),
        Ok(()) => format!(
            "the service's user `{user}` cannot run `{}`",
            program.display()
        ),
    };
    Err(Failure::usage(message).hint(INSTALL_FIRST))
}

/// Returns the parent of the history's directory. The directory itself belongs to the service's user.
fn above(db: Option<&Path>) -> Option<&Path> {
    db?.parent()?.parent()
}

/// Rejects files that users other than root can change.
fn reject_changeable(files: &[&Path]) -> Result<(), Failure> {
    let mut files = files.iter();
    let checked = files.try_for_each(|path| gua_files::safe_for_root(path));
    checked.map_err(|error| changeable(&error))
}

fn changeable(error: &Untrusted) -> Failure {
    Failure::usage(error.to_string()).hint(Untrusted::HINT)
}

/// Rejects alerts whose program or secret users other than root and the service's own can change.
fn reject_changeable_alerts(loaded: &Loaded, user: &str) -> Result<(), Failure> {
    let user = user_ids(user).map_or(0, |(uid, _)| uid);
    let alerts = loaded.settings.alerts.iter().map(|alert| &alert.value);
    let alerts = alerts.filter(|alert| alert.by == Sender::Daemon);
    alerts
        .flat_map(|alert| alert.target.file())
        .try_for_each(|path| {
            gua_files::safe_for_service(path, user).map_err(|error| changeable(&error))
        })
}

/// Users who may ask: as given, else as before.
fn readers(install: &Install, place: &Place) -> Result<Readers, Failure> {
    match &install.readable_by {
        Some(word) => word
            .parse()
            .map_err(|sentence: String| Failure::usage(sentence)),
        None => Ok([collector::SOCKET, collector::NAME]
            .iter()
            .find_map(|name| installed_readers(place, name))
            .unwrap_or_else(default_readers)),
    }
}

fn installed_readers(place: &Place, name: &str) -> Option<Readers> {
    let text = fs::read_to_string(place.unit(name)).ok()?;
    let is_ours = text.starts_with(unit::FIRST_LINE);
    is_ours.then(|| Readers::of_unit(&text)).flatten()
}

/// Default readers: everyone, because `/proc` shows the same processes to everyone. If `/proc` is mounted with hidepid,
/// only the group that can see all processes, or root.
fn default_readers() -> Readers {
    let root = HostRoot::real();
    match mount::hiding(&mount::mounts(&root), Path::new("/proc")) {
        Some(hiding) if hiding.level != mount::HideLevel::Off => match hiding.gid {
            Some(gid) => Readers::Group(gid.to_string()),
            None => Readers::Root,
        },
        _ => Readers::Everyone,
    }
}

#[cfg(test)]
mod tests;
