//! Destination of a report or a statement: stdout, a file, or a page that a browser opens; and the files that may be
//! overwritten.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gua_files::Over;
use gua_probe::process::ignored::was_ignored;

use crate::cli::PageFileArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Program that opens a file with the user's browser.
const OPENER: &str = "xdg-open";

/// Refuses what cannot be written, before the work, which may take long.
pub(crate) fn check(args: &PageFileArgs, is_page: bool) -> Result<(), Failure> {
    if args.open && !is_page {
        let problem = "--open shows the HTML page and cannot be combined with another format";
        return Err(Failure::usage(problem).hint("leave --format, --json and --csv out"));
    }
    match args.path() {
        Some(path) => refuse_existing(path, Over::of(args.overwrite)),
        None => Ok(()),
    }
}

/// Hint for a path that exists.
pub(crate) const EXISTS_HINT: &str = "choose another name with --output, or pass --overwrite";

/// Rejects a path that may not be overwritten, before the work is done.
pub(crate) fn refuse_existing(path: &Path, over: Over) -> Result<(), Failure> {
    match over.allows(path) {
        true => Ok(()),
        false => {
            let problem = format!("{} exists already", path.display());
            Err(Failure::usage(problem).hint(EXISTS_HINT))
        }
    }
}

/// Reports whether both paths lead to the same existing file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(std::fs::canonicalize);
    one.is_ok_and(|one| other.is_ok_and(|other| one == other))
}

/// Writes the text where it was asked for.
pub(crate) fn write(
    text: &str,
    args: &PageFileArgs,
    is_page: bool,
    context: &Context,
) -> anyhow::Result<()> {
    let path = match (args.path(), args.open && is_page) {
        (None, false) => return output::data(text),
        (Some(path), _) => path.to_owned(),
        (None, true) => unnamed(context)?,
    };
    let plain = anstream::adapter::strip_str(text).to_string();
    gua_files::remove_parts_on_signals(was_ignored);
    match args.path() {
        // People's hours are in it: for this user only.
        None => gua_files::replace(&path, plain.as_bytes(), 0o600)
            .map_err(Failure::cannot("write", &path))?,
        Some(_) => write_new(&path, plain.as_bytes(), Over::of(args.overwrite))?,
    }
    if args.open {
        open(&path)?;
    }
    Ok(())
}

/// Writes a file that is removed if a signal ends the program meanwhile.
pub(crate) fn write_new(path: &Path, bytes: &[u8], over: Over) -> Result<(), Failure> {
    gua_files::remove_parts_on_signals(was_ignored);
    refuse_existing(path, over)?;
    gua_files::write(path, bytes, over).map_err(Failure::cannot("write", path))
}

/// The file for a page that nobody named: one for each user, replaced each time.
fn unnamed(context: &Context) -> Result<PathBuf, Failure> {
    let home = context.loaded.inputs.home.as_ref();
    let home = home.ok_or_else(|| {
        Failure::failed("cannot write the page: HOME is not set").hint("name a file with -o FILE")
    })?;
    let directory = home.join(".gua");
    gua_files::make_private_directory(&directory)
        .map_err(Failure::cannot("create directory", &directory))?;
    Ok(directory.join("page.html"))
}

/// Opens a page in the user's browser.
fn open(path: &Path) -> Result<(), Failure> {
    let opened = Command::new(OPENER)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let shown = path.display();
    let problem = match opened {
        Ok(status) if status.success() => {
            output::eprint(&format!("opened {shown}\n"));
            return Ok(());
        }
        Ok(_) => format!("{OPENER} found no browser for {shown}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("cannot open {shown}: this host has no {OPENER}")
        }
        Err(error) => format!("cannot open {shown}: {error}"),
    };
    let hint = format!(
        "the page is written; copy it to your computer, for example with scp HOST:{shown} ."
    );
    Err(Failure::failed(problem).hint(hint))
}
