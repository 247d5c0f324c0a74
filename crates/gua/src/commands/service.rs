//! `gua service`: the collector as a systemd service, for the whole host or for one user.
//!
//! Writes one unit file and calls systemctl for everything else. Units that gua did not write are never changed.

mod board;
pub(crate) mod place;
mod sync;
pub(crate) mod systemctl;
pub(crate) mod unit;
pub(crate) mod units;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_probe::host::{HostRoot, mount};

use crate::cli::{ServiceCommand, ServiceInstallArgs, ServiceScopeArgs};
use crate::config::{FileState, Inputs, Loaded};
use crate::dispatch::load;
use crate::failure::Failure;
use crate::output;
use board::BoardFacts;
use place::{Place, Scope};
use systemctl::Systemctl;
use unit::{Pushing, Readers, UnitFacts};
use units::{Removal, begins_with, stranger, write_unit};

/// Unit name of the service, followed by the unit name that gpu-usage-audit used.
pub const NAME: &str = "gua.service";
pub const ALIAS: &str = "gpu-usage-audit.service";

pub fn run(command: &ServiceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) if args.sync_once => sync::install(args)?,
        ServiceCommand::Install(args) => install(args)?,
        ServiceCommand::Uninstall(args) if args.sync_once => sync::uninstall(&args.scope)?,
        ServiceCommand::Uninstall(args) => uninstall(&args.scope)?,
        ServiceCommand::Status(args) => return status(args),
    }
    Ok(ExitCode::SUCCESS)
}

fn install(args: &ServiceInstallArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.scope)?;
    let facts = facts(args, &place)?;
    let text = unit::text(&facts);
    if args.print {
        if let Some(Pushing { board, .. }) = &facts.cloud {
            output::talk(&board.said());
        }
        return output::data(&text);
    }
    refuse_strangers(&place, args.force)?;
    write_unit(&place.unit(NAME), &text)?;
    let systemctl = Systemctl { place: &place };
    systemctl.run(&["enable", NAME])?;
    let mut said = format!("gua service: installed {}\n", place.unit(NAME).display());
    said.push_str(&notes(&facts, args, &place));
    if place.is_image() {
        said.push_str(&format!(
            "  {}\n  the image needs the program at {}\n",
            place.begins(),
            facts.program.display()
        ));
        return output::data(&said);
    }
    if systemctl.is_running() {
        systemctl.run(&["daemon-reload"])?;
        if args.no_start {
            said.push_str(&format!("  start: {}\n", systemctl.shown(&["start", NAME])));
        } else {
            // A restart also applies a changed unit after an update.
            systemctl.run(&["restart", NAME])?;
            said.push_str("  started\n");
        }
    } else {
        said.push_str(&format!(
            "  systemd is not running here: {}\n",
            place.begins()
        ));
    }
    if place.scope == Scope::User {
        said.push_str(
            "  it ends with your last session; to keep it running: loginctl enable-linger\n",
        );
    }
    said.push_str(&format!("  look: {}\n", systemctl.shown(&["status", NAME])));
    output::data(&said)
}

fn facts(args: &ServiceInstallArgs, place: &Place) -> anyhow::Result<UnitFacts> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let cloud = if args.cloud {
        let loaded = load(&[])?;
        let board = BoardFacts::of(&loaded, place)?;
        if !args.print {
            board.admit(&loaded, place)?;
        }
        Some(Pushing {
            board,
            archive: args.archive,
        })
    } else {
        None
    };
    let files = Loaded::from(&Inputs::of_this_process(), &[]).files;
    let settings = files.into_iter().next();
    Ok(UnitFacts {
        program,
        scope: place.scope,
        interval: args.interval,
        readers: readers(args, place)?,
        settings: settings
            .filter(|file| file.state != FileState::Absent)
            .map(|file| file.path),
        cloud,
    })
}

/// Notes about the collector's unit for the user.
fn notes(facts: &UnitFacts, args: &ServiceInstallArgs, place: &Place) -> String {
    let mut said = different_readers(args, place, sync::SERVICE);
    if let Some(Pushing { board, .. }) = &facts.cloud {
        said.push_str(&board.said());
        if place.unit(sync::TIMER).exists() {
            said.push_str(
                "  the timer of sync-once is there too and pushes the same: `gua service uninstall --sync-once` ends it\n",
            );
        }
    }
    said
}

/// Readers of the history: as given, else as in the installed units, because all units share the directory.
fn readers(args: &ServiceInstallArgs, place: &Place) -> Result<Readers, Failure> {
    match &args.readable_by {
        Some(word) => word
            .parse()
            .map_err(|sentence: String| Failure::usage(sentence)),
        None => Ok([NAME, sync::SERVICE]
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

/// Warning if another installed unit has different readers.
fn different_readers(args: &ServiceInstallArgs, place: &Place, other: &str) -> String {
    let (Ok(ours), Some(theirs)) = (readers(args, place), installed_readers(place, other)) else {
        return String::new();
    };
    if ours == theirs || place.scope == Scope::User {
        return String::new();
    }
    format!(
        "  {other} still says --readable-by {theirs}, for the same directory: install it again with --readable-by {ours}\n"
    )
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

/// Rejects units with these names that gua did not write.
fn refuse_strangers(place: &Place, force: bool) -> anyhow::Result<()> {
    for name in [NAME, ALIAS] {
        let path = place.unit(name);
        let is_ours = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot look at `{}`", path.display()));
            }
            Ok(_) if points_to_ours(&path) => true,
            Ok(_) => begins_with(&path, unit::FIRST_LINE)?,
        };
        if !is_ours && !force {
            let systemctl = Systemctl { place };
            let disable = match place.is_image() {
                true => systemctl.shown(&["disable", name]),
                false => systemctl.shown(&["disable", "--now", name]),
            };
            let hint = format!("remove it first (`{disable}`), or give --force to replace it");
            return Err(stranger(&path, "", Some(hint)).into());
        }
        if !is_ours {
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

fn points_to_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.file_name().is_some_and(|name| name == NAME))
}

fn uninstall(args: &ServiceScopeArgs) -> anyhow::Result<()> {
    let place = Place::of(args)?;
    let path = place.unit(NAME);
    output::data(&match units::remove(&place, &[NAME], unit::FIRST_LINE)? {
        Removal::NotThere => format!("gua service: not installed at {}\n", path.display()),
        Removal::Done => format!(
            "gua service: removed {}\n  kept: the history at {}\n",
            path.display(),
            place.history()
        ),
    })
}

fn status(args: &ServiceScopeArgs) -> anyhow::Result<ExitCode> {
    let place = Place::of(args)?;
    let path = place.unit(NAME);
    if !path.exists() {
        let said = format!("gua service: not installed at {}\n", path.display());
        output::data(&(said + &sync::status(&place)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let systemctl = Systemctl { place: &place };
    let mut said = format!("gua service: installed at {}\n", path.display());
    if systemctl.is_running() {
        let state = |property: &str| systemctl.property(NAME, property);
        said.push_str(&format!(
            "  state: {} ({})\n",
            state("ActiveState"),
            state("SubState")
        ));
        said.push_str(&format!("  at boot: {}\n", state("UnitFileState")));
        said.push_str(&format!("  main pid: {}\n", state("MainPID")));
    } else if place.is_image() {
        said.push_str(&format!("  {}\n", place.begins()));
    } else {
        said.push_str("  systemd is not running here\n");
    }
    said.push_str(&format!("  history: {}\n", place.history()));
    said.push_str(&sync::status(&place));
    output::data(&said)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
