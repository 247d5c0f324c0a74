//! `gua service`: the collector as a systemd service, for the whole host or for one user.
//!
//! It writes one unit file and lets systemctl do the rest. It never touches a unit that it did not write.

pub(crate) mod place;
mod sync;
pub(crate) mod systemctl;
pub(crate) mod unit;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_probe::host::{HostRoot, mount};

use crate::cli::{ServiceCommand, ServiceInstallArgs, ServiceScopeArgs};
use crate::failure::{Exit, Failure};
use crate::output;
use place::{Place, Scope};
use systemctl::Systemctl;
use unit::{Readers, UnitFacts};

/// The service's name, and the one under which gpu-usage-audit was installed.
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
        return output::data(&text);
    }
    refuse_strangers(&place, args.force)?;
    write_unit(&place.unit(NAME), &text)?;
    let systemctl = Systemctl { place: &place };
    systemctl.run(&["enable", NAME])?;
    let mut said = format!("gua service: installed {}\n", place.unit(NAME).display());
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
            // Also takes up a changed unit when this was an update.
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
    let readers = match &args.readable_by {
        Some(word) => word
            .parse()
            .map_err(|sentence: String| Failure::usage(sentence))?,
        None => default_readers(),
    };
    Ok(UnitFacts {
        program,
        scope: place.scope,
        interval: args.interval,
        readers,
    })
}

/// Everyone may read what everyone sees in `/proc` anyway. Where `/proc` hides strangers' processes, only those may who
/// are shown them.
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

/// A unit of this name that somebody else wrote is theirs.
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

/// Whether a unit begins with the line by which ours are known.
pub(crate) fn begins_with(path: &Path, first_line: &str) -> anyhow::Result<bool> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(text.starts_with(first_line))
}

/// What is said of a unit that somebody else wrote.
pub(crate) fn stranger(path: &Path, rest: &str, hint: Option<String>) -> Failure {
    Failure {
        exit: Exit::Failed,
        message: format!("`{}` was not written by gua{rest}", path.display()),
        hint,
    }
}

/// A reader sees the old unit or the new one.
pub(crate) fn write_unit(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = path.parent().expect("a unit lies in a directory");
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create `{}`", directory.display()))?;
    let attempt = || -> std::io::Result<()> {
        let mut next = path.as_os_str().to_owned();
        next.push(".new");
        let mut file = fs::File::create(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    attempt().with_context(|| format!("cannot write `{}`", path.display()))
}

fn uninstall(args: &ServiceScopeArgs) -> anyhow::Result<()> {
    let place = Place::of(args)?;
    let path = place.unit(NAME);
    if !path.exists() {
        return output::data(&format!(
            "gua service: not installed at {}\n",
            path.display()
        ));
    }
    if !begins_with(&path, unit::FIRST_LINE)? {
        return Err(stranger(&path, " and is left alone", None).into());
    }
    let systemctl = Systemctl { place: &place };
    if systemctl.is_running() {
        systemctl.run(&["stop", NAME])?;
    }
    systemctl.run(&["disable", NAME])?;
    fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    if systemctl.is_running() {
        systemctl.run(&["daemon-reload"])?;
    }
    output::data(&format!(
        "gua service: removed {}\n  kept: the history at {}\n",
        path.display(),
        place.history()
    ))
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
