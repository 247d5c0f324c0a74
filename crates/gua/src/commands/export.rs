//! `gua export`: exports a history in formats for other programs.

mod outlet;

use std::collections::BTreeSet;
use std::path::Path;

use gua_collector::access::Access;
use gua_compat::gpu_usage_audit::LegacyError;
use gua_export::{Ask, Edges, ExportError, Exported, Format, GroupDay, What, Words, days};
use gua_files::Over;
use gua_model::report::groups::grouped;
use gua_model::{CalendarUnit, Period};
use gua_probe::process::ignored::was_ignored;
use gua_query::Question;
use gua_render::report::By;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use self::outlet::{Files, Target};
use crate::commands::prelude::*;
use crate::commands::report::members;
use crate::failure::damaged;
use crate::output as print;
use crate::page_file::{EXISTS_HINT, is_same_file, refuse_existing};

/// Exports the configured history.
pub fn run(args: &ExportArgs, context: &Context) -> anyhow::Result<()> {
    gua_files::remove_parts_on_signals(was_ignored);
    let target = Target::of(args)?;
    let format = form(args, &target)?;
    if let Some(by) = args.by {
        return export_groups(by, args, (format, target), context);
    }
    let over = Over::of(args.overwrite);
    let db = context.announced_history();
    let history = location::access(&db, context.settings())?;
    let Some(format) = format else {
        let Target::File(path) = target else {
            let problem = "the format gpu-usage-audit is one file: pass its path with --output";
            bail!(Failure::usage(problem));
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
            bail!(Failure::usage(problem));
        }
        refuse_existing(path, over)?;
        if is_same_file(path, &db) {
            let problem = format!("{} is the history itself", path.display());
            bail!(Failure::usage(problem).hint("choose another name with --output"));
        }
        return export_old(&history, &db, (path, over));
    };
    let ask = ask(args, format, &target, context.zone())?;
    let mut files = Files::new(target, (ask.what.as_str(), format.as_str()), over);
    refuse_what_is_there(&ask, &files)?;
    let rows = history.rows();
    let exported = Bar::during("exporting", |bar| {
        gua_export::run(rows.as_ref(), &ask, &mut files, &mut |share| {
            bar.share(share);
        })
    });
    let exported = exported.map_err(|error| failed(&db, error))?;
    print_notes(&ask, &target, &exported);
    Ok(())
}

/// Output format: the given one, else by the file extension, else CSV. `None` is the format of gpu-usage-audit.
fn form(args: &ExportArgs, target: &Target<'_>) -> Result<Option<Format>, Failure> {
    let format = match (args.format, target) {
        (Some(format), _) => format,
        (None, Target::File(path)) => by_extension(path)?,
        (None, Target::Stdout | Target::Directory(_)) => ExportFormat::Csv,
    };
    let format = match format {
        ExportFormat::Csv => Some(Format::Csv),
        ExportFormat::Jsonl => Some(Format::JsonLines),
        ExportFormat::Parquet => Some(Format::Parquet),
        ExportFormat::GpuUsageAudit => None,
    };
    if format == Some(Format::Parquet) && matches!(target, Target::Stdout) && print::is_terminal() {
        let problem = "cannot write Parquet to a terminal";
        return Err(Failure::usage(problem).hint("-o FILE.parquet writes it to a file"));
    }
    Ok(format)
}

fn ask(
    args: &ExportArgs,
    format: Format,
    target: &Target<'_>,
    local: TimeZone,
) -> Result<Ask, Failure> {
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
        &clock::now().to_zoned(local),
    )
}

/// Rejects existing output files before the export starts, which may take long.
fn refuse_what_is_there(ask: &Ask, files: &Files<'_>) -> Result<(), Failure> {
    let days: Vec<Option<Date>> = match files.target {
        // An unbounded range has no first day to check.
        Target::Directory(_) if ask.window.from() == Timestamp::MIN => Vec::new(),
        Target::Directory(_) => {
            let days = days(ask.window, &ask.zone).into_iter();
            days.map(|day| Some(day.date)).collect()
        }
        Target::Stdout | Target::File(_) => vec![None],
    };
    let mut paths = days.into_iter().filter_map(|day| files.path(day));
    paths.try_for_each(|path| refuse_existing(&path, files.over))
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

fn note(text: &str) {
    print::eprint(&format!("gua export: {text}\n"));
}

fn print_notes(ask: &Ask, target: &Target<'_>, exported: &Exported) {
    if let Some(from) = exported.kept_from {
        let from = from.to_zoned(ask.zone.clone()).strftime("%Y-%m-%d %H:%M");
        note(&format!(
            "single ticks are kept from {from} on; `--what totals` covers earlier time"
        ));
    }
    if exported.widened {
        note(
            "single ticks at an edge of the window are no longer kept: the whole quarter hour is exported",
        );
    }
    note_damaged(exported.ticks_damaged);
    print_rows(ask.what.as_str(), target, exported);
}

fn note_damaged(ticks: u64) {
    if ticks > 0 {
        note(&format!(
            "left out {ticks} damaged ticks; `gua db check` shows details"
        ));
    }
}

/// Prints what was written to files.
fn print_rows(what: &str, target: &Target<'_>, exported: &Exported) {
    let rows = counted(exported.rows, "row");
    match target {
        Target::Stdout => {}
        Target::File(path) => note(&format!("{rows} of {what} in {}", path.display())),
        Target::Directory(path) => {
            let files = counted(exported.files, "file");
            note(&format!(
                "{rows} of {what} in {files} in {}",
                path.display()
            ));
        }
    }
}

/// Exports a history to a file of gpu-usage-audit.
fn export_old(history: &Access, db: &Path, (output, over): (&Path, Over)) -> anyhow::Result<()> {
    let exported = Bar::during("exporting", |bar| {
        history.export_old(output, over, &mut |progress| bar.show(progress))
    });
    let usage = |error: &LegacyError, hint| Failure::usage(error.to_string()).hint(hint).into();
    let exported = exported.map_err(|error| match &error {
        LegacyError::Exists { .. } => usage(&error, EXISTS_HINT),
        LegacyError::LogBeside { .. } => usage(
            &error,
            "end the program that uses it, or choose another name with --output",
        ),
        _ => damaged(db, &error),
    })?;
    if exported.gpus_without_util > 0 {
        let readings = exported.gpus_without_util;
        note(&format!(
            "left out {readings} readings without a utilisation, which that format cannot represent"
        ));
    }
    note_damaged(exported.damaged_ticks);
    print::data(&format!(
        "exported {}, {} and {} from {} to {}\n",
        counted(exported.gpu_rows, "GPU row"),
        counted(exported.process_rows, "process row"),
        counted(exported.runs, "run"),
        db.display(),
        output.display()
    ))
}

/// Exports the sums of each day. They come from reports, which the service answers too.
fn export_groups(
    by: By,
    args: &ExportArgs,
    (format, target): (Option<Format>, Target<'_>),
    context: &Context,
) -> anyhow::Result<()> {
    let Some(format) = format else {
        bail!(Failure::usage(
            "--by: the format gpu-usage-audit has no groups"
        ));
    };
    let ask = ask(args, format, &target, context.zone())?;
    let over = Over::of(args.overwrite);
    if let Target::File(path) = target {
        refuse_existing(path, over)?;
    }
    let rows = group_rows(by, &ask, context)?;
    let mut files = Files::new(target, (by.as_str(), format.as_str()), over);
    let written = gua_export::write_groups(&rows, (format, ask.edges), &mut files);
    let exported = written.map_err(|error| failed(&context.history(), error))?;
    print_rows(by.as_str(), &target, &exported);
    Ok(())
}

fn group_rows(by: By, ask: &Ask, context: &Context) -> anyhow::Result<Vec<GroupDay>> {
    let now = context.now();
    let of_window = |window: Period| Question {
        workloads: by.workload(),
        ..Question::of_window(window, ask.zone.clone(), now)
    };
    let by_day = Question {
        unit: Some(CalendarUnit::Day),
        ..of_window(ask.window)
    };
    let all = context.ask(|source| source.report(&by_day))?;
    let kind = by.group();
    let members = kind.map(|kind| members(&all.people, kind, context));
    let members = members.transpose()?;
    let Some(known) = all.known.overlap(ask.window) else {
        return Ok(Vec::new());
    };
    // One damaged row can extend the window by a century of days without ticks.
    let seen = all.slots.iter().filter(|slot| slot.sums.was_seen());
    let seen: BTreeSet<Date> = seen.map(|slot| slot.label.date()).collect();
    let days = days(known, &ask.zone).into_iter();
    let mut rows = Vec::new();
    for day in days.filter(|day| seen.contains(&day.date)) {
        let report = context.source().report(&of_window(day.period))?;
        let sums = match &members {
            Some(members) => grouped(&report.people, |name| members.of(name)),
            None => report.groups,
        };
        let host = report.host.map(|host| host.name);
        rows.extend(sums.into_iter().map(|row| GroupDay {
            date: day.date,
            period: day.period,
            host: host.clone(),
            kind: by.as_str(),
            name: row.name,
            sums: row.sums,
            is_charged: members.is_some(),
        }));
    }
    Ok(rows)
}
