//! The history that a command uses without `--db`: that of the user's own daemon, else the host's. A history that the user
//! may not read is asked through the service's socket. Only commands that collect (`daemon`, `start`, `sync-once`) begin
//! a history of the user beside the host's.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_query::QueryError;
use gua_settings::{Inputs, Layer, Loaded, Settings, Source};
use gua_store::{FileKind, History, OpenError, what_is_this};

use crate::access::Access;
use crate::managed::{PidOwner, owner_of};
use crate::pid_file::PidFile;
use crate::socket::Service;

/// Default path of the host's history, which the service writes.
pub const OF_THE_HOST: &str = "/var/lib/gua/gua.db";

/// Path of the history to read: the configured one; else the user's own while its daemon is running; else the host's;
/// else the user's own, which may not exist.
pub fn history(loaded: &Loaded) -> PathBuf {
    among(loaded, &loaded.settings.history.service_db.value)
}

/// Returns a note that names the chosen history, if that is not obvious: none is configured, and there is more than one, or
/// the chosen one is at an unusual path.
pub fn note(loaded: &Loaded, chosen: &Path) -> Option<String> {
    let db = &loaded.settings.history.db;
    if db.source != Source::Default {
        return None;
    }
    let (own, host) = (&db.value, &loaded.settings.history.service_db.value);
    let is_usual = chosen == host || chosen == own;
    let reason = match chosen {
        path if path == host => "the history of the host's service",
        path if path == own => "your own history",
        _ => "the history of your running daemon",
    };
    let is_other = |path: &&PathBuf| match *path == host {
        _ if *path == chosen => false,
        true => is_there(host, loaded),
        false => path.exists(),
    };
    let chosen_path = chosen.display();
    match [own, host].into_iter().find(is_other) {
        Some(other) => Some(format!(
            "using {chosen_path}, {reason}; `--db {}` chooses the other one",
            other.display()
        )),
        None if is_usual => None,
        None => Some(format!("using {chosen_path}, {reason}")),
    }
}

/// Query source for [`history`].
pub fn source(loaded: &Loaded) -> Box<dyn gua_query::Source> {
    source_at(&history(loaded), &loaded.settings)
}

/// Query source for the history at a path, whichever program wrote it: the file, or the service if the file cannot be read.
pub fn source_at(path: &Path, settings: &Settings) -> Box<dyn gua_query::Source> {
    match service(path, settings) {
        Some(service) => Access::Service(service).source(),
        None => file_at(path.to_owned()),
    }
}

/// Query source for a file that the user can read.
pub fn file_at(path: PathBuf) -> Box<dyn gua_query::Source> {
    Access::File(path).source()
}

/// Access to a history of gua at a path: the file, or the service if the file cannot be read. A missing file and a file of
/// gpu-usage-audit are usage errors.
pub fn access(path: &Path, settings: &Settings) -> Result<Access, OpenFailure> {
    match service(path, settings) {
        Some(service) => Ok(Access::Service(service)),
        None => open_history(path).map(|_| Access::File(path.to_owned())),
    }
}

/// The service, if it has to be asked about the history at a path: the file is private to it. For the host's history, the
/// service may also have another path.
pub fn service(path: &Path, settings: &Settings) -> Option<Service> {
    let socket = &settings.history.socket.value;
    let is_hosts = path == settings.history.service_db.value;
    let is_closed = match what_is_this(path) {
        FileKind::Unreadable { .. } => true,
        FileKind::Missing => is_hosts,
        _ => false,
    };
    let wanted = (!is_hosts).then_some(path);
    (is_closed && is_socket(socket)).then(|| Service::at(socket, wanted))
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
}

/// Hint for a missing history.
pub const WITHOUT_HISTORY: &str = "`gua daemon` creates one; pass another path with --db";

/// Error of a command whose history does not exist.
pub fn no_history(path: &Path) -> Failure {
    let path = path.to_owned();
    Failure::usage(OpenError::Missing { path }.to_string()).hint(WITHOUT_HISTORY)
}

/// Reason why a history of gua cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenFailure {
    #[error("{0}")]
    Usage(#[from] Failure),
    #[error("{0}")]
    Open(#[source] OpenError),
}

/// Opens a history of gua. A missing file and a file of gpu-usage-audit are usage errors.
pub fn open_history(db: &Path) -> Result<History, OpenFailure> {
    History::open(db).map_err(|error| match error {
        OpenError::Missing { path } => no_history(&path).into(),
        OpenError::NotOurs {
            kind: FileKind::GpuUsageAudit,
            ..
        } => Failure::usage(error.to_string())
            .hint("`gua import` imports it into a history of gua, which can be exported")
            .into(),
        OpenError::Unreadable { .. } => unreadable(&error).into(),
        error => OpenFailure::Open(error),
    })
}

/// Error of a command that opens a history itself and may not.
pub fn unreadable(error: &OpenError) -> Failure {
    Failure::failed(chain(error)).hint(
        "this command opens the file itself: run it as root, or choose a history of your own with --db",
    )
}

/// Error of a command that opens a history itself, if the service has it at another path than the usual one.
pub fn refuse_service_elsewhere(path: &Path, settings: &Settings) -> Result<(), Failure> {
    let is_elsewhere = path == settings.history.service_db.value
        && what_is_this(path) == FileKind::Missing
        && is_socket(&settings.history.socket.value);
    match is_elsewhere {
        true => Err(Failure::usage(format!(
            "the service answers, but its history is not at {}",
            path.display()
        ))
        .hint("`gua service status` shows its path; pass it with --db")),
        false => Ok(()),
    }
}

/// Converts an error of a query to a usage error if it is one: a name that the history does not have, or a file that is no history.
pub fn usage_error(error: &QueryError) -> Option<Failure> {
    match error {
        QueryError::NoSuchPerson { .. } => Some(Failure::of_flag("user", error.to_string())),
        QueryError::NoSuchGpu { .. }
        | QueryError::AmbiguousGpu { .. }
        | QueryError::AmbiguousRun { .. }
        | QueryError::NoRuns => Some(Failure::usage(error.to_string())),
        QueryError::NoSuchRun { .. } => {
            Some(Failure::usage(error.to_string()).hint("`gua runs list` lists them"))
        }
        QueryError::Open(source) => match source.downcast_ref()? {
            OpenError::Missing { path } => Some(no_history(path)),
            OpenError::NotOurs {
                path,
                kind:
                    kind @ (FileKind::Empty
                    | FileKind::OtherSqlite
                    | FileKind::NotSqlite
                    | FileKind::Directory),
            } => Some(
                Failure::usage(format!("{} is {kind}, not a history", path.display()))
                    .hint("pass another path with --db"),
            ),
            _ => None,
        },
        _ => None,
    }
}

/// History against which the limits of a configuration file are evaluated. Limits of the host use the host's history if
/// there is one: the history of a user's own daemon, or one named in their own file, may cover only a part of the
/// period.
pub fn for_limits(loaded: &Loaded, layer: Layer) -> PathBuf {
    let is_given = matches!(loaded.settings.history.db.source, Source::Flag(_));
    let of_host = hosts_settings(loaded).settings.history;
    let host = &of_host.service_db.value;
    match of_host.db.source {
        _ if layer == Layer::User || is_given => among(loaded, host),
        Source::Default if is_there(host, loaded) => host.clone(),
        Source::Default => among(loaded, host),
        _ => of_host.db.value,
    }
}

/// History for enforcing limits. Limits of the host ignore `--db`, so that users cannot evade them with another
/// history.
pub fn to_refuse(loaded: &Loaded, layer: Layer) -> PathBuf {
    match layer {
        Layer::Host => for_limits(&Loaded::from(&loaded.inputs, &[]), layer),
        Layer::User => for_limits(loaded, layer),
    }
}

/// Query source for a history against which the limits of a configuration file are evaluated. For limits of the host, only
/// the host's own configuration names the socket, so that users cannot evade them with another one.
pub fn source_for_limits(path: &Path, layer: Layer, loaded: &Loaded) -> Box<dyn gua_query::Source> {
    match layer {
        Layer::Host => source_at(path, &hosts_settings(loaded).settings),
        Layer::User => source_at(path, &loaded.settings),
    }
}

/// The settings of the host's configuration alone, which users cannot change.
fn hosts_settings(loaded: &Loaded) -> Loaded {
    let inputs = Inputs {
        variables: BTreeMap::new(),
        home: None,
        system_file: loaded.inputs.system_file.clone(),
    };
    Loaded::from(&inputs, &[])
}

/// Whether the host has a history: one that can be read, or a service that can be asked.
pub(crate) fn is_there(host: &Path, loaded: &Loaded) -> bool {
    match what_is_this(host) {
        FileKind::OurHistory { .. } => true,
        FileKind::Missing | FileKind::Unreadable { .. } => {
            is_socket(&loaded.settings.history.socket.value)
        }
        _ => false,
    }
}

fn among(loaded: &Loaded, host: &Path) -> PathBuf {
    let db = &loaded.settings.history.db;
    if db.source != Source::Default {
        return db.value.clone();
    }
    let own = of_own_daemon(loaded).or_else(|| is_fresh(&db.value).then(|| db.value.clone()));
    own.or_else(|| is_there(host, loaded).then(|| host.to_owned()))
        .unwrap_or_else(|| db.value.clone())
}

/// History of the user's background daemon.
fn of_own_daemon(loaded: &Loaded) -> Option<PathBuf> {
    let pid_file = PidFile::at(&loaded.settings.collect.pid_file.value);
    let PidOwner::Managed(managed) = owner_of(pid_file.read()?, &pid_file) else {
        return None;
    };
    managed.argument("--db").map(PathBuf::from)
}

/// Whether a history was written recently, by the time of its journal, which changes with every tick. Detects a
/// foreground daemon, which has no PID file.
fn is_fresh(path: &Path) -> bool {
    const RECENT: Duration = Duration::from_secs(600);
    let changed =
        std::fs::metadata(gua_files::beside(path, "-wal")).and_then(|facts| facts.modified());
    let now = std::time::SystemTime::from(gua_probe::clock::now());
    changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age < RECENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gua_settings::FlagValue;
    use gua_store::{OpenMode, Store, WriterOptions};

    #[test]
    fn the_users_own_history_goes_before_the_hosts_only_while_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".gua/gua.db");
        let host = home.path().join("host.db");
        let socket = home.path().join("gua.sock");
        let inputs = Inputs {
            variables: BTreeMap::from([("GUA_SOCKET", socket.clone().into())]),
            home: Some(home.path().to_owned()),
            system_file: home.path().join("none.toml"),
        };
        let of_host = format!("[history]\nservice_db = \"{}\"\n", host.display());
        std::fs::write(&inputs.system_file, &of_host).unwrap();
        let loaded = Loaded::from(&inputs, &[]);
        assert_eq!(history(&loaded), own);
        // A service that can be asked is a history of the host.
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(history(&loaded), host);
        assert!(service(&own, &loaded.settings).is_none());
        drop(listener);
        std::fs::remove_file(&socket).unwrap();

        std::fs::create_dir(home.path().join(".gua")).unwrap();
        let make =
            |path: &Path| Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
        make(&host).close().unwrap();
        let note = |loaded: &Loaded| note(loaded, &history(loaded));
        assert_eq!(note(&loaded), None, "there is only one");
        make(&own).close().unwrap();
        assert_eq!(history(&loaded), host);
        let said = note(&loaded).unwrap();
        assert!(
            said.starts_with(&format!("using {}, the", host.display())),
            "{said}"
        );
        assert!(said.contains(&format!("--db {}`", own.display())), "{said}");
        std::fs::write(home.path().join(".gua/gua.db-wal"), "").unwrap();
        assert_eq!(history(&loaded), own);
        let said = note(&loaded).unwrap();
        assert!(said.contains("your own history"), "{said}");

        // Limits of the host use the host's history, even if the user has one.
        assert_eq!(for_limits(&loaded, Layer::Host), host);
        assert_eq!(for_limits(&loaded, Layer::User), own);
        let file = home.path().join(".gua/config.toml");
        std::fs::write(file, "[history]\ndb = \"/empty.db\"\n").unwrap();
        let evading = Loaded::from(&inputs, &[]);
        assert_eq!(for_limits(&evading, Layer::Host), host);
        assert_eq!(for_limits(&evading, Layer::User), Path::new("/empty.db"));
        let named = format!("{of_host}db = \"/of-host.db\"\n");
        std::fs::write(&inputs.system_file, named).unwrap();
        let evading = Loaded::from(&inputs, &[]);
        assert_eq!(for_limits(&evading, Layer::Host), Path::new("/of-host.db"));

        let named = FlagValue::of("--db", "history", "db", Some("/x.db"));
        let loaded = Loaded::from(&inputs, named.as_slice());
        assert_eq!(history(&loaded), Path::new("/x.db"));
        assert_eq!(note(&loaded), None, "it was chosen by flag");
        assert_eq!(for_limits(&loaded, Layer::Host), Path::new("/x.db"));
        // `--db` has no effect where limits are enforced.
        let held_back = |layer| to_refuse(&loaded, layer);
        assert_eq!(held_back(Layer::Host), Path::new("/of-host.db"));
        assert_eq!(held_back(Layer::User), Path::new("/x.db"));
        std::fs::write(&inputs.system_file, of_host).unwrap();
        assert_eq!(held_back(Layer::Host), host);
    }
}
