//! Groups of units, such as a timer and its service, that are printed, written and removed together. Units that gua did
//! not write are not changed.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::place::Place;
use super::systemctl::Systemctl;
use crate::failure::{Exit, Failure};

/// Units with their names and texts, and the first line that identifies units written by gua.
pub(crate) struct Units<'a> {
    pub(crate) place: &'a Place,
    pub(crate) first_line: &'static str,
    pub(crate) texts: Vec<(&'static str, String)>,
}

impl Units<'_> {
    /// Text of all units, each below its name.
    pub(crate) fn printed(&self) -> String {
        let texts = self.texts.iter();
        let texts: Vec<String> = texts
            .map(|(name, text)| format!("# {name}\n{text}"))
            .collect();
        texts.join("\n")
    }

    /// Writes the units. Fails if gua did not write an existing one and `force` is not set.
    pub(crate) fn write(&self, force: bool) -> anyhow::Result<()> {
        for (name, _) in &self.texts {
            let path = self.place.unit(name);
            if path.exists() && !force && !begins_with(&path, self.first_line)? {
                let hint = "remove it first, or give --force to replace it";
                return Err(stranger(&path, "", Some(hint.to_owned())).into());
            }
        }
        for (name, text) in &self.texts {
            write_unit(&self.place.unit(name), text)?;
        }
        Ok(())
    }
}

/// Whether a unit was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    NotThere,
    Done,
}

/// Stops and disables the first unit, then removes all units.
pub(crate) fn remove(place: &Place, names: &[&str], first_line: &str) -> anyhow::Result<Removal> {
    let paths = names.iter().map(|name| place.unit(name));
    let there: Vec<_> = paths.filter(|path| path.exists()).collect();
    let (Some(begun), false) = (names.first(), there.is_empty()) else {
        return Ok(Removal::NotThere);
    };
    for path in &there {
        if !begins_with(path, first_line)? {
            return Err(stranger(path, " and is left alone", None).into());
        }
    }
    let systemctl = Systemctl { place };
    if systemctl.is_running() {
        systemctl.run(&["stop", begun])?;
    }
    systemctl.run(&["disable", begun])?;
    for path in &there {
        fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    if systemctl.is_running() {
        systemctl.run(&["daemon-reload"])?;
    }
    Ok(Removal::Done)
}

/// Whether a unit starts with the line that identifies units written by gua.
pub(crate) fn begins_with(path: &Path, first_line: &str) -> anyhow::Result<bool> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(text.starts_with(first_line))
}

/// Error for a unit that gua did not write.
pub(crate) fn stranger(path: &Path, rest: &str, hint: Option<String>) -> Failure {
    Failure {
        exit: Exit::Failed,
        message: format!("`{}` was not written by gua{rest}", path.display()),
        hint,
    }
}

/// Writes a unit atomically.
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
