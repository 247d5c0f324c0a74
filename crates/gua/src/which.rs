//! Which history a command reads that was given none: that of the user's own daemon, else the host's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_collector::managed::{Maker, Occupant, occupant};
use gua_collector::pid_file::PidFile;
use gua_store::{FileKind, what_is_this};

use crate::config::{Loaded, Source};

/// Where the service keeps the host's history.
pub const OF_THE_HOST: &str = "/var/lib/gua/gua.db";

/// The history that was named; else the user's own while its daemon runs; else the host's; else the user's own, whether
/// or not it is there.
#[must_use]
pub fn history(loaded: &Loaded) -> PathBuf {
    among(loaded, Path::new(OF_THE_HOST))
}

fn among(loaded: &Loaded, host: &Path) -> PathBuf {
    let db = &loaded.settings.history.db;
    if db.source != Source::Default {
        return db.value.clone();
    }
    let own = of_own_daemon(loaded).or_else(|| is_fresh(&db.value).then(|| db.value.clone()));
    let is_ours = |path: &Path| matches!(what_is_this(path), FileKind::OurHistory { .. });
    own.or_else(|| is_ours(host).then(|| host.to_owned()))
        .unwrap_or_else(|| db.value.clone())
}

/// The history of the daemon that the user has in the background.
fn of_own_daemon(loaded: &Loaded) -> Option<PathBuf> {
    let pid_file = PidFile::at(&loaded.settings.collect.pid_file.value);
    let Occupant::Managed(managed) = occupant(pid_file.read()?, &pid_file) else {
        return None;
    };
    if managed.maker != Maker::Ours {
        return None;
    }
    let mut words = managed.arguments.iter().skip_while(|word| *word != "--db");
    words.nth(1).map(PathBuf::from)
}

/// Whether a file was written lately: its journal is, with every tick. A daemon in the foreground has no pid file.
fn is_fresh(path: &Path) -> bool {
    const LATELY: Duration = Duration::from_secs(600);
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    let changed = std::fs::metadata(&journal).and_then(|facts| facts.modified());
    let now = std::time::SystemTime::from(gua_probe::clock::now());
    changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age < LATELY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FlagValue, Inputs};
    use gua_store::{OpenMode, Store, WriterOptions};

    #[test]
    fn the_users_own_history_goes_before_the_hosts_only_while_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".gua/gua.db");
        let host = home.path().join("host.db");
        let inputs = Inputs {
            variables: Default::default(),
            home: Some(home.path().to_owned()),
            system_file: home.path().join("none.toml"),
        };
        let loaded = Loaded::from(&inputs, &[]);
        assert_eq!(among(&loaded, &host), own);

        std::fs::create_dir(home.path().join(".gua")).unwrap();
        let make =
            |path: &Path| Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
        make(&host).close().unwrap();
        make(&own).close().unwrap();
        assert_eq!(among(&loaded, &host), host);
        std::fs::write(home.path().join(".gua/gua.db-wal"), "").unwrap();
        assert_eq!(among(&loaded, &host), own);

        let named = FlagValue::of("--db", "history", "db", Some("/x.db"));
        let loaded = Loaded::from(&inputs, named.as_slice());
        assert_eq!(among(&loaded, &host), Path::new("/x.db"));
    }
}
