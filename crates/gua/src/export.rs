//! `gua export`: exports a history in formats for other programs.

mod audit;
mod outlet;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use gua_export::{Ask, Edges, ExportError, Exported, Format, Outlet, days};
use gua_model::Period;
use gua_model::text::counted;
use gua_probe::clock;
use gua_store::{FileKind, History, OpenError};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::outlet::{Files, Stdout};
use crate::cli::{ExportArgs, ExportFormat, ExportWhat};
use crate::config::Loaded;
use crate::db::damaged;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::report::question::{moment, zone};
use crate::whole_file::Over;
use crate::{output as print, which};

/// Exports the configured history.
pub fn run(args: &ExportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let target = Target::of(args)?;
    let format = form(args, &target)?;
    let db = which::history(loaded);
    let history = open(&db)?;
    let Some(format) = format else {
        let Target::File(path) = target else {
            let problem = "gpu-usage-audit's form is one file, which --output has to name";
            return Err(Failure::usage(problem).into());
        };
        return audit::run(&history, path);
    };
    let ask = ask(args, format, &target)?;
    let over = Over::of(args.overwrite);
    let mut outlet: Box<dyn Outlet> = match target {
        Target::Stdout => Box::new(Stdout),
        Target::File(path) => Box::new(Files::one(path, over)),
        Target::Directory(path) => {
            let names = (ask.what.as_str(), ending(format));
            Box::new(Files::by_day(path, names, over))
        }
    };
    if over == Over::Refuse {
        refuse_what_is_there(&ask, &target, format)?;
    }
    let mut bar = Bar::new("exporting");
    let exported = gua_export::run(&history, &ask, outlet.as_mut(), &mut |share| {
        bar.share(share);
    });
    bar.clear();
    drop(outlet);
    tell(
        &ask,
        &target,
        &exported.map_err(|error| failed(&db, error))?,
    );
    Ok(ExitCode::SUCCESS)
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
                let problem = format!("there is no directory {}", path.display());
                Err(Failure::usage(problem).hint("make it first, or name a file"))
            }
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
                let problem = format!("the ending of {} names no form", path.display());
                let hint = "end it with .csv, .jsonl or .parquet, or say --format";
                Err(Failure::usage(problem).hint(hint))
            }
        }
    };
    let format = named.map_or_else(of_ending, Ok)?;
    if format == Some(Format::Parquet) && matches!(target, Target::Stdout) && print::is_terminal() {
        let problem = "Parquet is no text for a terminal";
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

/// Opens the history at a path. Any other kind of file is a usage error.
pub fn open(db: &Path) -> anyhow::Result<History> {
    match History::open(db) {
        Err(OpenError::Missing { path }) => Err(which::no_history(&path).into()),
        Err(
            error @ OpenError::NotOurs {
                kind: FileKind::GpuUsageAudit,
                ..
            },
        ) => {
            let hint = "`gua import` takes it into a history of ours, which can be exported";
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        other => Ok(other?),
    }
}

/// Query described by the flags, for callers that consume the rows themselves instead of writing a file.
pub fn question(args: &ExportArgs) -> Result<Ask, Failure> {
    ask(args, Format::JsonLines, &Target::Stdout)
}

fn ask(args: &ExportArgs, format: Format, target: &Target<'_>) -> Result<Ask, Failure> {
    let zone = match &args.tz {
        None => TimeZone::system(),
        Some(name) => zone(name)?,
    };
    let now = clock::now();
    let bound = |flag: &str, text: &Option<String>| -> Result<Option<Timestamp>, Failure> {
        let text = text.as_deref();
        text.map(|text| Ok(moment(flag, text, &zone, now)?.at))
            .transpose()
    };
    let from = bound("--since", &args.since)?.unwrap_or(Timestamp::MIN);
    let to = bound("--until", &args.until)?;
    if to.is_some_and(|to| to < from) {
        return Err(Failure::usage("the window ends before it begins"));
    }
    let until = to.unwrap_or(now).min(now);
    let window = Period::new(from.min(until), until);
    let by_day = matches!(target, Target::Directory(_));
    let whole = |at: Timestamp| {
        at.to_zoned(zone.clone())
            .start_of_day()
            .map(|day| day.timestamp())
    };
    let window = match by_day {
        false => window,
        // A file in a directory covers a whole day, so that a partial day never replaces a complete one.
        true => {
            let from = match from == Timestamp::MIN {
                true => from,
                false => whole(window.from()).unwrap_or(window.from()),
            };
            let ends_inside = whole(until).is_ok_and(|day| day != until);
            let next = until
                .to_zoned(zone.clone())
                .tomorrow()
                .and_then(|next| next.start_of_day());
            let to = match (ends_inside, next) {
                (true, Ok(next)) => next.timestamp().min(now),
                _ => until,
            };
            Period::new(from, to)
        }
    };
    Ok(Ask {
        what: what(args.what),
        format,
        window,
        ends: to.is_some(),
        edges: if by_day { Edges::Whole } else { Edges::Cut },
        zone,
    })
}

fn what(what: ExportWhat) -> gua_export::What {
    match what {
        ExportWhat::Samples => gua_export::What::Samples,
        ExportWhat::Processes => gua_export::What::Processes,
        ExportWhat::Sessions => gua_export::What::Sessions,
        ExportWhat::Totals => gua_export::What::Totals,
        ExportWhat::UserTotals => gua_export::What::UserTotals,
    }
}

/// Rejects existing output files before the export starts, which may take long.
fn refuse_what_is_there(ask: &Ask, target: &Target<'_>, format: Format) -> Result<(), Failure> {
    match target {
        Target::Stdout => Ok(()),
        Target::File(path) => Over::Refuse.allows(path),
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
                Over::Refuse.allows(&directory.join(name))
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
        ExportError::Old(error) => damaged(db, &error),
        error => error.into(),
    }
}

fn tell(ask: &Ask, target: &Target<'_>, exported: &Exported) {
    let say = |text: String| print::talk(&format!("gua export: {text}\n"));
    if let Some(from) = exported.kept_from {
        let from = from.to_zoned(ask.zone.clone()).strftime("%Y-%m-%d %H:%M");
        say(format!(
            "single ticks are kept from {from} on; `--what totals` has what was before"
        ));
    }
    if exported.widened {
        say(
            "single ticks at an edge of the window are no longer kept: its quarter hour is whole"
                .to_owned(),
        );
    }
    if exported.ticks_damaged > 0 {
        let ticks = exported.ticks_damaged;
        say(format!(
            "left out {ticks} ticks that are damaged; `gua db check` tells more"
        ));
    }
    let (rows, what) = (counted(exported.rows, "row"), ask.what.as_str());
    match target {
        Target::Stdout => {}
        Target::File(path) => say(format!("{rows} of {what} in {}", path.display())),
        Target::Directory(path) => {
            say(format!(
                "{rows} of {what} in {} in {}",
                counted(exported.files, "file"),
                path.display()
            ));
        }
    }
}
