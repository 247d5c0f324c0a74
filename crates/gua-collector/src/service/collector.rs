//! The unit of the collector.

use std::fs;
use std::path::Path;

use gua_model::failure::Failure;
use gua_settings::{FileState, Loaded};

use super::board::BoardFacts;
use super::place::{Place, Scope};
use super::systemctl::Systemctl;
use super::unit::{self, Pushing, UnitFacts};
use super::units::{self, Messages, Units, begins_with, foreign_unit, removed};
use super::{Install, Output, readers, sync, system_user, this_program};

/// Unit name of the service, followed by the unit name that gpu-usage-audit used.
pub const NAME: &str = "gua.service";
pub const ALIAS: &str = "gpu-usage-audit.service";
/// Socket through which users ask, and the service that answers there.
pub(super) const SOCKET: &str = "gua.socket";
pub(super) const READER: &str = "gua-reader.service";

/// Installs, enables and starts the service.
pub fn install(install: &Install, place: &Place, loaded: &Loaded) -> Result<Output, Failure> {
    let facts = facts(install, place, loaded)?;
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
        let text = units.printed();
        let board = facts.cloud.map(|pushing| pushing.board.notes());
        let notes = board.unwrap_or_default();
        return Ok(Output { text, notes });
    }
    reject_foreign_units(place, install.force)?;
    if place.scope == Scope::System {
        system_user::create(place)?;
    }
    units.write(true)?;
    let systemctl = Systemctl { place };
    if place.scope == Scope::System && systemctl.is_running() {
        // A socket in use does not take new options. The collector's unit starts it again. It may not be loaded yet.
        let _ = systemctl.run(&["stop", SOCKET, READER]);
    }
    let after = match place.scope {
        Scope::System => "",
        Scope::User => {
            "  it ends with your last session; to keep it running: loginctl enable-linger\n"
        }
    };
    let messages = Messages {
        notes: notes(&facts, place),
        image_needs: Some(format!("the program at {}", facts.program.display())),
        idle: format!("systemd is not running here: {}", place.begins()),
        after: after.to_owned(),
        look: ["status", NAME],
    };
    units.enable(install, &messages)
}

fn facts(install: &Install, place: &Place, loaded: &Loaded) -> Result<UnitFacts, Failure> {
    let program = this_program()?;
    let cloud = match install.cloud {
        false => None,
        true => {
            loaded.checked()?;
            let board = BoardFacts::of(loaded, place)?;
            if !install.print {
                board.admit(loaded, place)?;
            }
            let archive = install.archive;
            Some(Pushing { board, archive })
        }
    };
    let settings = loaded.files.first();
    let settings = settings.filter(|file| file.state != FileState::Absent);
    Ok(UnitFacts {
        program,
        scope: place.scope,
        interval: install.interval,
        readers: readers(install, place)?,
        settings: settings.map(|file| file.path.clone()),
        cloud,
    })
}

/// Notes about the collector's unit for the user.
fn notes(facts: &UnitFacts, place: &Place) -> String {
    let mut notes = String::new();
    if place.scope == Scope::System {
        notes.push_str(&format!("  may ask: {}\n", facts.readers));
    }
    if let Some(Pushing { board, .. }) = &facts.cloud {
        notes.push_str(&board.notes());
        if place.unit(sync::TIMER).exists() {
            notes.push_str(
                "  the timer of sync-once is installed too and pushes the same data: remove it with `gua service uninstall --sync-once`\n",
            );
        }
    }
    notes
}

/// Rejects units with these names that gua did not write.
fn reject_foreign_units(place: &Place, force: bool) -> Result<(), Failure> {
    for name in [NAME, ALIAS, SOCKET, READER] {
        let path = place.unit(name);
        let is_ours = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(Failure::cannot("examine", &path)(error)),
            Ok(_) => points_to_ours(&path) || begins_with(&path, unit::FIRST_LINE)?,
        };
        if is_ours {
            continue;
        }
        if !force {
            let systemctl = Systemctl { place };
            let disable = match place.is_image() {
                true => systemctl.shown(&["disable", name]),
                false => systemctl.shown(&["disable", "--now", name]),
            };
            let hint = format!("remove it first (`{disable}`), or pass --force to replace it");
            return Err(foreign_unit(&path, "").hint(hint));
        }
        units::remove_file(&path)?;
    }
    Ok(())
}

fn points_to_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.file_name().is_some_and(|name| name == NAME))
}

/// Stops the service and removes its unit.
pub fn uninstall(place: &Place) -> Result<String, Failure> {
    let kept = format!("the history at {}", place.history());
    let names = [NAME, SOCKET, READER];
    let text = removed(place, "gua service", &names, unit::FIRST_LINE, &kept)?;
    if place.scope == Scope::System {
        system_user::forget(place)?;
    }
    Ok(text)
}

/// Shows whether the service is installed and running.
#[must_use]
pub fn status(place: &Place) -> String {
    let path = place.unit(NAME);
    if !path.exists() {
        let text = format!("gua service: not installed at {}\n", path.display());
        return text + &sync::status(place);
    }
    let systemctl = Systemctl { place };
    let mut text = format!("gua service: installed at {}\n", path.display());
    if systemctl.is_running() {
        let state = |property: &str| systemctl.property(NAME, property);
        text.push_str(&format!(
            "  state: {} ({})\n  at boot: {}\n  main pid: {}\n",
            state("ActiveState"),
            state("SubState"),
            state("UnitFileState"),
            state("MainPID")
        ));
    } else {
        text.push_str(&place.not_running());
    }
    text.push_str(&format!("  history: {}\n", place.history()));
    text + &sync::status(place)
}
