//! The unit of the collector.

use std::fs;
use std::path::Path;

use gua_model::failure::Failure;
use gua_settings::{FileState, Loaded};

use super::board::BoardFacts;
use super::place::{Place, Scope};
use super::systemctl::Systemctl;
use super::unit::{self, Pushing, UnitFacts};
use super::units::{self, begins_with, foreign_unit, removed, write_unit};
use super::{Install, Output, different_readers, readers, sync, this_program};

/// Unit name of the service, followed by the unit name that gpu-usage-audit used.
pub const NAME: &str = "gua.service";
pub const ALIAS: &str = "gpu-usage-audit.service";

/// Installs, enables and starts the service.
pub fn install(install: &Install, place: &Place, loaded: &Loaded) -> Result<Output, Failure> {
    let facts = facts(install, place, loaded)?;
    let text = unit::text(&facts);
    if install.print {
        let board = facts.cloud.map(|pushing| pushing.board.notes());
        let notes = board.unwrap_or_default();
        return Ok(Output { text, notes });
    }
    reject_foreign_units(place, install.force)?;
    write_unit(&place.unit(NAME), &text)?;
    let systemctl = Systemctl { place };
    systemctl.run(&["enable", NAME])?;
    let mut text = format!("gua service: installed {}\n", place.unit(NAME).display());
    text.push_str(&notes(&facts, place));
    if place.is_image() {
        text.push_str(&format!(
            "  {}\n  the image needs the program at {}\n",
            place.begins(),
            facts.program.display()
        ));
        return Ok(text.into());
    }
    let idle = format!("systemd is not running here: {}", place.begins());
    text.push_str(&systemctl.activate(NAME, install.no_start, &idle)?);
    if place.scope == Scope::User {
        text.push_str(
            "  it ends with your last session; to keep it running: loginctl enable-linger\n",
        );
    }
    text.push_str(&format!("  look: {}\n", systemctl.shown(&["status", NAME])));
    Ok(text.into())
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
    let mut notes = different_readers(&facts.readers, place, sync::SERVICE);
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
    for name in [NAME, ALIAS] {
        let path = place.unit(name);
        let is_ours = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                return Err(Failure::because(format!(
                    "cannot examine `{}`",
                    path.display()
                ))(error));
            }
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
    removed(place, "gua service", &[NAME], unit::FIRST_LINE, &kept)
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
