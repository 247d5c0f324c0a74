//! Groups of units, such as a timer and its service, that are printed, written and removed together. Units that gua did
//! not write are not changed.

use std::fs;
use std::path::Path;

use gua_files::Over;
use gua_model::failure::Failure;

use super::place::Place;
use super::systemctl::Systemctl;

/// Units with their names and texts, and the first line that identifies units written by gua.
pub(super) struct Units<'a> {
    pub(super) place: &'a Place,
    pub(super) first_line: &'static str,
    pub(super) texts: Vec<(&'static str, String)>,
}

impl Units<'_> {
    /// Text of all units, each below its name.
    pub(super) fn printed(&self) -> String {
        let texts = self.texts.iter();
        let texts: Vec<String> = texts
            .map(|(name, text)| format!("# {name}\n{text}"))
            .collect();
        texts.join("\n")
    }

    /// Writes the units. Fails if gua did not write an existing one and `force` is not set.
    pub(super) fn write(&self, force: bool) -> Result<(), Failure> {
        for (name, _) in &self.texts {
            let path = self.place.unit(name);
            if path.exists() && !force && !begins_with(&path, self.first_line)? {
                let hint = "remove it first, or pass --force to replace it";
                return Err(foreign_unit(&path, "").hint(hint));
            }
        }
        for (name, text) in &self.texts {
            write_unit(&self.place.unit(name), text)?;
        }
        Ok(())
    }
}

/// Stops and disables the first unit, then removes all units. Returns a line about what was `kept`.
pub(super) fn removed(
    place: &Place,
    command: &str,
    names: &[&str],
    first_line: &str,
    kept: &str,
) -> Result<String, Failure> {
    let paths = names.iter().map(|name| place.unit(name));
    let there: Vec<_> = paths.filter(|path| path.exists()).collect();
    let path = place.unit(names[0]);
    let path = path.display();
    if there.is_empty() {
        return Ok(format!("{command}: not installed at {path}\n"));
    }
    for path in &there {
        if !begins_with(path, first_line)? {
            return Err(foreign_unit(path, " and is not changed"));
        }
    }
    let systemctl = Systemctl { place };
    if systemctl.is_running() {
        systemctl.run(&["stop", names[0]])?;
    }
    systemctl.run(&["disable", names[0]])?;
    for path in &there {
        remove_file(path)?;
    }
    if systemctl.is_running() {
        systemctl.run(&["daemon-reload"])?;
    }
    Ok(format!("{command}: removed {path}\n  kept: {kept}\n"))
}

pub(super) fn remove_file(path: &Path) -> Result<(), Failure> {
    let what = format!("cannot remove `{}`", path.display());
    fs::remove_file(path).map_err(Failure::because(what))
}

/// Whether a unit starts with the line that identifies units written by gua.
pub(super) fn begins_with(path: &Path, first_line: &str) -> Result<bool, Failure> {
    let what = format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(path).map_err(Failure::because(what))?;
    Ok(text.starts_with(first_line))
}

/// Error for a unit that gua did not write.
pub(super) fn foreign_unit(path: &Path, rest: &str) -> Failure {
    Failure::failed(format!("`{}` was not written by gua{rest}", path.display()))
}

/// Writes a unit.
pub(super) fn write_unit(path: &Path, text: &str) -> Result<(), Failure> {
    let directory = path.parent().expect("a unit lies in a directory");
    fs::create_dir_all(directory).map_err(Failure::because(format!(
        "cannot create `{}`",
        directory.display()
    )))?;
    // A link is replaced and not followed: a masked unit is a link to /dev/null.
    if path.is_symlink() {
        remove_file(path)?;
    }
    gua_files::write(path, text.as_bytes(), Over::Write).map_err(Failure::because(format!(
        "cannot write `{}`",
        path.display()
    )))
}
