//! The unit of the collector.

use std::fs;
use std::path::Path;

use gua_model::failure::Failure;
use gua_model::text::sanitize;
use gua_probe::host::HostRoot;
use gua_settings::Loaded;

use super::board::BoardFacts;
use super::host_facts::HostFacts;
use super::place::{Place, Scope};
use super::unit::{self, UnitFacts};
use super::units::{self, Messages, Units, begins_with, foreign_unit, removed};
use super::{
    Install, Output, above, readers, reject_changeable_alerts, safe_for_root, sync, system_user,
    this_program,
};
use crate::daemon::{Append, HistoryFile};
use crate::python_collector::python_writer;

/// Unit name of the service, followed by the unit name that gpu-usage-audit used.
pub const NAME: &str = "gua.service";
pub const ALIAS: &str = "gpu-usage-audit.service";
/// Socket through which users ask, and the service that answers there.
pub(super) const SOCKET: &str = "gua.socket";
pub(super) const READER: &str = "gua-reader.service";

/// Installs, enables and starts the service.
pub fn install(install: &Install, place: &Place, loaded: &Loaded) -> Result<Output, Failure> {
    let facts = facts(install, place, loaded)?;
    if !install.print {
        admit_board(&facts, place, loaded)?;
        check_safe(&facts, place, loaded)?;
        if place.scope == Scope::System && !place.is_image() {
            reject_changeable_alerts(loaded, unit::USER)?;
        }
    }
    let mut texts = Vec::new();
    if place.scope == Scope::System {
        texts.extend(unit::answering(&facts));
    }
    texts.push((NAME, unit::text(&facts)));
    let units = Units {
        place,
        command: "gua service",
        first_line: unit::FIRST_LINE,
        texts,
    };
    if install.print {
        return Ok(Output {
            text: units.printed(),
            notes: facts.board_notes(),
        });
    }
    let history = history(&facts, place, loaded);
    if let Some(history) = &history {
        admit(history, place)?;
    }
    let names = [NAME, ALIAS, SOCKET, READER];
    reject_foreign_units(place, &names, unit::FIRST_LINE, install.force)?;
    system_user::admit(place, facts.db.as_deref())?;
    units.write(true)?;
    if place.scope == Scope::System && place.runs_systemd() {
        // A socket in use does not take new options, and a collector of an earlier version runs as root. The collector's
        // unit starts both again. They may not be loaded yet.
        let _ = place.systemctl(&["stop", SOCKET, READER]);
        if !install.no_start {
            let _ = place.systemctl(&["stop", NAME]);
        }
    }
    system_user::create(place, facts.db.as_deref())?;
    let after = match place.scope {
        Scope::System => "",
        Scope::User => {
            "  it ends with your last session; to keep it running: loginctl enable-linger\n"
        }
    };
    let old = history.filter(HistoryFile::will_be_adopted);
    let messages = Messages {
        notes: notes(
            &facts,
            place,
            old.as_ref(),
            &loaded.settings.history.service_db.value,
        ),
        image_needs: Some(format!("the program at {}", facts.program.display())),
        idle: format!("systemd is not running here: {}", place.begins()),
        after: after.to_owned(),
        look: ["status", NAME],
    };
    units.enable(install, &messages)
}

/// Contents of the units of the collector, or of the timer of `gua sync-once`.
pub(super) fn facts(
    install: &Install,
    place: &Place,
    loaded: &Loaded,
) -> Result<UnitFacts, Failure> {
    let program = this_program(place)?;
    let board = match install.cloud {
        false => None,
        true => {
            loaded.checked()?;
            Some(BoardFacts {
                archive: install.archive,
                ..BoardFacts::of(loaded, place)?
            })
        }
    };
    Ok(UnitFacts {
        program,
        scope: place.scope,
        db: place.database(
            install.db.as_deref(),
            &loaded.settings.history.service_db.value,
        ),
        interval: install.interval,
        metrics: install.metrics.or(loaded.settings.metrics.listen.value),
        readers: readers(install, place)?,
        host: HostFacts::of(place, loaded)?,
        board,
    })
}

/// Rejects units that could never push to the board.
pub(super) fn admit_board(
    facts: &UnitFacts,
    place: &Place,
    loaded: &Loaded,
) -> Result<(), Failure> {
    let board = facts.board.as_ref();
    board.map_or(Ok(()), |board| board.admit(loaded, place))
}

/// Rejects a service of the host that another user could change.
pub(super) fn check_safe(facts: &UnitFacts, place: &Place, loaded: &Loaded) -> Result<(), Failure> {
    if place.scope == Scope::User {
        return Ok(());
    }
    let mut files = (facts.board.as_ref()).map_or_else(Vec::new, BoardFacts::files);
    files.extend(above(facts.db.as_deref()));
    safe_for_root(place, loaded, (&facts.program, unit::USER), &files)
}

/// The history that the collector will write; `None` in an image whose users each have their own.
fn history(facts: &UnitFacts, place: &Place, loaded: &Loaded) -> Option<HistoryFile> {
    let home = loaded.inputs.home.as_deref();
    let home = home.filter(|_| place.scope == Scope::User);
    let history = &loaded.settings.history;
    let file = |db: &Path| HistoryFile::of(db, home, &history.service_db.value);
    match &facts.db {
        Some(db) => Some(file(db).found_at(place.file(db))),
        None if place.is_image() => None,
        None => Some(file(&history.db.value)),
    }
}

/// Rejects a history that the collector could not write, before anything is installed.
fn admit(history: &HistoryFile, place: &Place) -> Result<(), Failure> {
    history.admit(Append::Yes)?;
    let path = history.path();
    if !history.is_in_own_directory() && !path.parent().is_some_and(Path::is_dir) {
        let directory = path.parent().unwrap_or(path).display();
        return Err(
            Failure::usage(format!("the directory `{directory}` does not exist"))
                .hint(format!("create it: `mkdir -p {directory}`")),
        );
    }
    let writer = match place.is_image() {
        true => None,
        false => python_writer(&HostRoot::real(), path),
    };
    match writer {
        Some(pid) => Err(Failure::failed(format!(
            "a collector of gpu-usage-audit (pid {pid}) writes to `{}`",
            path.display()
        ))
        .hint(format!(
            "stop it, with `systemctl disable --now UNIT` if a unit started it (`systemctl status {pid}` names the unit), else with `kill {pid}`; then install again"
        ))),
        None => Ok(()),
    }
}

/// Notes about the collector's unit for the user. `old` is a history of gpu-usage-audit at its path.
fn notes(facts: &UnitFacts, place: &Place, old: Option<&HistoryFile>, service_db: &Path) -> String {
    let mut notes = String::new();
    if let Some(old) = old {
        let path = old.path().display();
        notes.push_str(&format!(
            "  {path} is a history of gpu-usage-audit: the collector imports it when it starts, and keeps the file as {path}.gpu-usage-audit-1\n"
        ));
    }
    if place.scope == Scope::System {
        notes.push_str(&format!("  may ask: {}\n", facts.readers));
    }
    let is_found = facts.db.as_ref().is_none_or(|db| db == service_db);
    if let (Scope::System, false, Some(db)) = (place.scope, is_found, &facts.db) {
        notes.push_str(&format!(
            "  for commands without --db, add to [history] in /etc/gua/config.toml: service_db = \"{}\"\n",
            db.display()
        ));
    }
    notes.push_str(&facts.board_notes());
    if facts.board.is_some() && place.unit(sync::TIMER).exists() {
        notes.push_str(
            "  the timer of sync-once is installed too and pushes the same data: remove it with `gua service uninstall --sync-once`\n",
        );
    }
    notes
}

/// Rejects units with these names that gua did not write. The others may be links to the first.
pub(super) fn reject_foreign_units(
    place: &Place,
    names: &[&str],
    first_line: &str,
    force: bool,
) -> Result<(), Failure> {
    for name in names {
        let path = place.unit(name);
        let is_ours = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(Failure::cannot("examine", &path)(error)),
            Ok(_) => points_to(&path, names[0]) || begins_with(&path, first_line)?,
        };
        if is_ours {
            continue;
        }
        if !force {
            let disable = match place.is_image() {
                true => place.systemctl_line(&["disable", name]),
                false => place.systemctl_line(&["disable", "--now", name]),
            };
            let hint = format!("remove it first (`{disable}`), or pass --force to replace it");
            return Err(foreign_unit(&path, "").hint(hint));
        }
        units::remove_file(&path)?;
    }
    Ok(())
}

fn points_to(path: &Path, unit: &str) -> bool {
    fs::read_link(path).is_ok_and(|target| target.file_name().is_some_and(|name| name == unit))
}

/// Applies a change of the enrolment to the host's service, which has a copy of it: removing the enrolment stops its pushes.
/// Returns a line for the user if the service is affected.
pub fn follow_enrolment(enrolment: &Path) -> Option<String> {
    let place = Place::new(Some(Scope::System), None, None).ok()?;
    let path = place.unit(NAME);
    let text = fs::read_to_string(&path).ok()?;
    let credential = unit::credential("cloud.json", enrolment);
    if !text.starts_with(unit::FIRST_LINE) || !text.contains(&credential) {
        return None;
    }
    let follow = || -> Result<(), Failure> {
        if !enrolment.exists() {
            units::write_unit(&path, &unit::without_board(&text))?;
        }
        if place.runs_systemd() {
            place.systemctl(&["daemon-reload"])?;
            place.systemctl(&["try-restart", NAME])?;
        }
        Ok(())
    };
    Some(match follow() {
        Ok(()) => format!("\n  service: {NAME} uses the change"),
        Err(error) => format!(
            "\n  service: {}; it uses the change after `{}`",
            error.message,
            place.systemctl_line(&["restart", NAME])
        ),
    })
}

/// Stops the service and removes its unit.
pub fn uninstall(place: &Place) -> Result<String, Failure> {
    if let (false, Some(unit)) = (place.unit(NAME).exists(), place.packaged(NAME)) {
        let disable = place.systemctl_line(&["disable", "--now", NAME]);
        let unit = unit.display();
        return Ok(format!(
            "gua service: {unit} belongs to a package\n  to stop it: {disable}\n"
        ));
    }
    let kept = format!("the history at {}", place.history());
    let names = [NAME, SOCKET, READER];
    let text = removed(place, "gua service", &names, unit::FIRST_LINE, &kept)?;
    if place.scope == Scope::System {
        system_user::forget(place)?;
    }
    Ok(text)
}

/// Shows whether the service is installed and running.
pub fn status(place: &Place) -> String {
    let path = place.unit(NAME);
    let installed = Some(path.clone()).filter(|path| path.exists());
    let Some(path) = installed.or_else(|| place.packaged(NAME)) else {
        let text = format!("gua service: not installed at {}\n", path.display());
        return text + &sync::status(place);
    };
    let mut text = format!("gua service: installed at {}\n", path.display());
    if place.runs_systemd() {
        let property = |name: &str| place.property(NAME, name);
        text.push_str(&state(&property, &|| place.last_log_lines(NAME)));
    } else {
        text.push_str(&place.not_running());
    }
    text.push_str(&format!("  history: {}\n", place.history()));
    text + &sync::status(place)
}

/// Lines about the unit's state. A collector that does not stay running is reported with its last log lines: systemd
/// calls it `activating` while it waits for the next restart.
fn state(property: &dyn Fn(&str) -> String, log: &dyn Fn() -> String) -> String {
    let (active, sub) = (property("ActiveState"), property("SubState"));
    let mut text = format!(
        "  state: {active} ({sub})\n  at boot: {}\n  main pid: {}\n",
        property("UnitFileState"),
        property("MainPID")
    );
    let result = property("Result");
    let is_failing = active == "failed" || sub.starts_with("auto-restart");
    if is_failing || !["success", "unknown", ""].contains(&result.as_str()) {
        text.push_str(&format!(
            "  failing: {result}, exit status {}, restarted {} times\n",
            property("ExecMainStatus"),
            property("NRestarts")
        ));
        for line in log().lines() {
            text.push_str(&format!("  log: {}\n", sanitize(line)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_keeps_failing_is_reported_with_its_log() {
        let unit = |state: [&'static str; 4]| {
            move |name: &str| {
                let values = ["ActiveState", "SubState", "Result", "NRestarts"];
                let at = values.iter().position(|value| *value == name);
                at.map_or("2", |at| state[at]).to_owned()
            }
        };
        let log = || "gua daemon --foreground: `x` is not a database\n".to_owned();
        let failing = unit(["activating", "auto-restart", "exit-code", "41"]);
        let text = state(&failing, &log);
        assert!(
            text.contains("  failing: exit-code, exit status 2, restarted 41 times\n"),
            "{text}"
        );
        assert!(
            text.contains("  log: gua daemon --foreground: `x`"),
            "{text}"
        );
        let failed = unit(["failed", "failed", "start-limit-hit", "5"]);
        assert!(state(&failed, &log).contains("  failing: start-limit-hit"));
        let running = unit(["active", "running", "success", "0"]);
        assert!(!state(&running, &log).contains("failing"));
    }
}
