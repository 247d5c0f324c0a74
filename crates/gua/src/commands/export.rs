//! `gua export`: exports a history in formats for other programs.

mod audit;
mod groups;
mod outlet;

use std::ffi::OsStr;
use std::path::Path;

use gua_collector::location;
use gua_export::{Ask, Edges, ExportError, Exported, Format, Outlet, What, Words, days};
use gua_files::Over;
use gua_model::text::counted;
use gua_probe::clock;
use gua_probe::process::ignored::was_ignored;
use jiff::Timestamp;

use self::outlet::{Files, Stdout};
use super::db::damaged;
use crate::cli::{ExportArgs, ExportFormat};
use crate::context::Context;
use crate::failure::Failure;
use crate::output as print;
use crate::progress::Bar;

/// Exports the configured history.
pub fn run(args: &ExportArgs, context: &Context) -> anyhow::Result<()> {
    gua_files::remove_parts_on_signals(was_ignored);
    let target = Target::of(args)?;
    let format = form(args, &target)?;
    if let Some(by) = args.by {
        return groups::run(by, args, (format, target), context);
    }
    let db = context.announced_history();
    let history = location::access(&db, context.settings())?;
    let Some(format) = format else {
        let Target::File(path) = target else {
            let problem = "the format gpu-usage-audit is one file: pass its path with --output";
            return Err(Failure::usage(problem).into());
        };
        let given = [
            ("--what", args.what.is_some()),
            ("--since", args.since.is_some()),
            ("--until", args.until.is_some()),
        ];
        if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let problem = format!(
                "{flag} cannot be used with --format gpu-usage-audit: the file contains the whole history and all tables"
            );
            return Err(Failure::usage(problem).into());
        }
        let over = Over::of(args.overwrite);
        refuse_existing(path, over)?;
        if is_same_file(path, &db) {
            let problem = format!("{} is the history itself", path.display());
            return Err(Failure::usage(problem)
                .hint("choose another name with --output")
                .into());
        }
        return audit::run(&history, &db, (path, over));
    };
    let ask = ask(args, format, &target)?;
    let over = Over::of(args.overwrite);
    let mut outlet = target.outlet((ask.what.as_str(), ending(format)), over);
    if over == Over::Refuse {
        refuse_what_is_there(&ask, &target, format)?;
    }
    let mut bar = Bar::new("exporting");
    let exported = gua_export::run(
        history.rows().as_ref(),
        &ask,
        outlet.as_mut(),
        &mut |share| {
            bar.share(share);
        },
    );
    bar.clear();
    drop(outlet);
    print_notes(
        &ask,
        &target,
        &exported.map_err(|error| failed(&db, error))?,
    );
    Ok(())
}

/// Destination of the rows.
#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    Stdout,
    File(&'a Path),
    /// One file per day.
    Directory(&'a Path),
}

impl<'a> Target<'a> {
    fn of(args: &'a ExportArgs) -> Result<Self, Failure> {
        let Some(path) = args
            .output
            .as_deref()
            .filter(|path| *path != Path::new("-"))
        else {
            return Ok(Target::Stdout);
        };
        let is_named_so = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match (path.is_dir(), is_named_so) {
            (true, _) => Ok(Target::Directory(path)),
            (false, false) => Ok(Target::File(path)),
            (false, true) => {
                let problem = format!("no directory {}", path.display());
                Err(Failure::usage(problem).hint("create it first, or pass a file"))
            }
        }
    }
}

impl Target<'_> {
    /// Where files are written; names of daily ones consist of the table and the ending.
    fn outlet(&self, names: (&'static str, &'static str), over: Over) -> Box<dyn Outlet> {
        match self {
            Target::Stdout => Box::new(Stdout),
            Target::File(path) => Box::new(Files::one(path, over)),
            Target::Directory(path) => Box::new(Files::by_day(path, names, over)),
        }
    }
}

/// Output format: the given one, else by the file extension, else CSV. `None` is the format of gpu-usage-audit.
fn form(args: &ExportArgs, target: &Target<'_>) -> Result<Option<Format>, Failure> {
    let named = args.format.map(|format| match format {
        ExportFormat::Csv => Some(Format::Csv),
        ExportFormat::Jsonl => Some(Format::JsonLines),
        ExportFormat::Parquet => Some(Format::Parquet),
        ExportFormat::GpuUsageAudit => None,
    });
    let of_ending = || {
        let Target::File(path) = target else {
            return Ok(Some(Format::Csv));
        };
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Ok(Some(Format::Csv)),
            "jsonl" | "ndjson" => Ok(Some(Format::JsonLines)),
            "parquet" => Ok(Some(Format::Parquet)),
            _ => {
                let problem = format!("unknown file extension: {}", path.display());
                let hint = "use .csv, .jsonl or .parquet, or pass --format";
                Err(Failure::usage(problem).hint(hint))
            }
        }
    };
    let format = named.map_or_else(of_ending, Ok)?;
    if format == Some(Format::Parquet) && matches!(target, Target::Stdout) && print::is_terminal() {
        let problem = "cannot write Parquet to a terminal";
        return Err(Failure::usage(problem).hint("-o FILE.parquet writes it to a file"));
    }
    Ok(format)
}

fn ending(format: Format) -> &'static str {
    match format {
        Format::Csv => "csv",
        Format::JsonLines => "jsonl",
        Format::Parquet => "parquet",
    }
}

fn ask(args: &ExportArgs, format: Format, target: &Target<'_>) -> Result<Ask, Failure> {
    let words = Words {
        since: args.since.clone(),
        until: args.until.clone(),
        tz: args.tz.clone(),
    };
    let edges = match target {
        Target::Directory(_) => Edges::Whole,
        Target::Stdout | Target::File(_) => Edges::Cut,
    };
    Ask::new(
        args.what.unwrap_or(What::Samples),
        format,
        &words,
        edges,
        clock::now(),
    )
}

/// Rejects a path that may not be overwritten, before the work is done.
pub(crate) fn refuse_existing(path: &Path, over: Over) -> Result<(), Failure> {
    match over.allows(path) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{} exists already", path.display()))
            .hint("choose another name with --output, or pass --overwrite")),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(std::fs::canonicalize);
    one.is_ok_and(|one| other.is_ok_and(|other| one == other))
}

/// Rejects existing output files before the export starts, which may take long.
fn refuse_what_is_there(ask: &Ask, target: &Target<'_>, format: Format) -> Result<(), Failure> {
    match target {
        Target::Stdout => Ok(()),
        Target::File(path) => refuse_existing(path, Over::Refuse),
        Target::Directory(directory) => {
            // An unbounded range has no first day to check.
            let bounded = ask.window.from() > Timestamp::MIN;
            let days = if bounded {
                days(ask.window, &ask.zone)
            } else {
                Vec::new()
            };
            days.into_iter().try_for_each(|day| {
                let name = format!("{}-{}.{}", ask.what.as_str(), day.date, ending(format));
                refuse_existing(&directory.join(name), Over::Refuse)
            })
        }
    }
}

fn failed(db: &Path, error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            print::Closed.into()
        }
        ExportError::Write(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Failure::usage(error.to_string()).into()
        }
        ExportError::Read(error) => damaged(db, &error),
        error => error.into(),
    }
}

fn print_notes(ask: &Ask, target: &Target<'_>, exported: &Exported) {
    let note = |text: String| print::eprint(&format!("gua export: {text}\n"));
    if let Some(from) = exported.kept_from {
        let from = from.to_zoned(ask.zone.clone()).strftime("%Y-%m-%d %H:%M");
        note(format!(
            "single ticks are kept from {from} on; `--what totals` covers earlier time"
        ));
    }
    if exported.widened {
        note(
            "single ticks at an edge of the window are no longer kept: the whole quarter hour is exported"
                .to_owned(),
        );
    }
    if exported.ticks_damaged > 0 {
        let ticks = exported.ticks_damaged;
        note(format!(
            "left out {ticks} damaged ticks; `gua db check` shows details"
        ));
    }
    print_rows(ask.what.as_str(), target, exported);
}

/// Prints what was written to files.
fn print_rows(what: &str, target: &Target<'_>, exported: &Exported) {
    let note = |text: String| print::eprint(&format!("gua export: {text}\n"));
    let rows = counted(exported.rows, "row");
    match target {
        Target::Stdout => {}
        Target::File(path) => note(format!("{rows} of {what} in {}", path.display())),
        Target::Directory(path) => {
            note(format!(
                "{rows} of {what} in {} in {}",
                counted(exported.files, "file"),
                path.display()
            ));
        }
    }
}
