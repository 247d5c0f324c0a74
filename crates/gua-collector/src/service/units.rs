//! Groups of units, such as a timer and its service, that are printed, written and removed together. Units that gua did
//! not write are not changed.

use std::fs;
use std::path::Path;

use gua_files::Over;
use gua_model::failure::Failure;

use super::place::Place;
use super::{Install, Output};

/// Units that are written by one command.
pub(super) struct Units<'a> {
    pub(super) place: &'a Place,
    /// The command, for messages.
    pub(super) command: &'static str,
    /// First line, which identifies units written by gua.
    pub(super) first_line: &'static str,
    /// Names and texts. The last unit is enabled and started.
    pub(super) texts: Vec<(&'static str, String)>,
}

/// Texts for the user about installed units.
pub(super) struct Messages<'a> {
    pub(super) notes: String,
    /// Additional steps for an image; `None` shows the same as on the running system.
    pub(super) image_needs: Option<String>,
    /// Text that says when the unit starts if systemd is not running.
    pub(super) idle: String,
    pub(super) after: String,
    /// Arguments of systemctl that show the unit.
    pub(super) look: [&'a str; 2],
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

    /// Enables and starts the last of the written units.
    pub(super) fn enable(
        &self,
        install: &Install,
        messages: &Messages<'_>,
    ) -> Result<Output, Failure> {
        let place = self.place;
        let (unit, _) = self.texts.last().expect("there is at least one unit");
        place.systemctl(&["enable", unit])?;
        let path = place.unit(unit);
        let mut text = format!("{}: installed {}\n", self.command, path.display());
        text.push_str(&messages.notes);
        if let (true, Some(needs)) = (place.is_image(), &messages.image_needs) {
            let begins = place.begins();
            text.push_str(&format!("  {begins}\n  the image needs {needs}\n"));
            return Ok(text.into());
        }
        text.push_str(&place.activate(unit, install.no_start, &messages.idle)?);
        text.push_str(&messages.after);
        let look = place.systemctl_line(&messages.look);
        text.push_str(&format!("  look: {look}\n"));
        Ok(text.into())
    }
}

/// Stops all units and disables the first, then removes them. Returns a line about what was `kept`.
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
    if place.runs_systemd() {
        let mut words = vec!["stop"];
        words.extend(names.iter().filter(|name| place.unit(name).exists()));
        place.systemctl(&words)?;
    }
    place.systemctl(&["disable", names[0]])?;
    for path in &there {
        remove_file(path)?;
    }
    if place.runs_systemd() {
        place.systemctl(&["daemon-reload"])?;
    }
    Ok(format!("{command}: removed {path}\n  kept: {kept}\n"))
}

pub(super) fn remove_file(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(Failure::cannot("remove", path))
}

/// Whether a unit starts with the line that identifies units written by gua.
pub(super) fn begins_with(path: &Path, first_line: &str) -> Result<bool, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::cannot("read", path))?;
    Ok(text.starts_with(first_line))
}

/// Error for a unit that gua did not write.
pub(super) fn foreign_unit(path: &Path, rest: &str) -> Failure {
    Failure::failed(format!("`{}` was not written by gua{rest}", path.display()))
}

/// Writes a unit.
pub(super) fn write_unit(path: &Path, text: &str) -> Result<(), Failure> {
    let directory = path.parent().expect("a unit lies in a directory");
    fs::create_dir_all(directory).map_err(Failure::cannot("create", directory))?;
    // A link is replaced and not followed: a masked unit is a link to /dev/null.
    if path.is_symlink() {
        remove_file(path)?;
    }
    gua_files::write(path, text.as_bytes(), Over::Write).map_err(Failure::cannot("write", path))
}
