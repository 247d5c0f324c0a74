//! `gua demo`: shows a simulated month, or records and reports the demo of gpu-usage-audit. Both use the real
//! store and report code. The clock is simulated unless `--real-time` is given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_compat::gpu_usage_audit::tick_line::tick_line;
use gua_files::{Over, remove_parts_on_signals};
use gua_model::demo::month::Month;
use gua_model::demo::{self, Script};
use gua_model::duration::{Clockwise, written};
use gua_model::{Thresholds, Tick};
use gua_probe::process::ignored::was_ignored;
use gua_query::Detail;
use gua_render::report::{Page, Words, html, text};
use gua_settings::FlagValue;
use gua_store::{History, OpenMode, Store, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::commands::prelude::*;
use crate::commands::report::OnTerminal;
use crate::commands::{plot, report, top};
use crate::page_file::{refuse_existing, write_new};
use crate::simulated::{HOST, SimulatedMonth, new_run};

/// Start time of a recorded demo without `--db`. It is constant, so that the output is always the same.
const STAGE: Timestamp = Timestamp::constant(1_778_490_000, 0);

pub fn run(args: &DemoArgs, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    match &args.view {
        None if args.recording.is_wanted() => record(&args.recording, &Context::load(flags)?)?,
        None => glance(&args.recording, flags)?,
        Some(view) => return show(view, flags),
    }
    Ok(ExitCode::SUCCESS)
}

/// Records and reports the demo of gpu-usage-audit.
pub fn record(args: &RecordDemoArgs, context: &Context) -> anyhow::Result<()> {
    let ticks = args.ticks.unwrap_or(30);
    let every = args.interval.unwrap_or(Duration::from_secs(1));
    let interval = SignedDuration::try_from(every).context("the interval is too long")?;
    if every.is_zero() && ticks > 0 {
        bail!(Failure::usage("--interval must be greater than zero"));
    }
    let db = match &args.db {
        Some(_) => context.settings().history.db.value.clone(),
        None => fresh(context)?,
    };
    refuse_real(&db)?;
    output::eprint(&format!(
        "# {}\n# Recording {ticks} fake ticks at {} interval...\n",
        db.display(),
        Clockwise(every)
    ));
    let length = interval
        .checked_mul(ticks)
        .context("the ticks extend beyond the supported dates")?;
    let start = match (args.real_time, &args.db) {
        (true, _) => None,
        (false, None) => Some(STAGE),
        // A history that is kept ends now, so that `gua report` finds it.
        (false, Some(_)) => Some(clock::now().checked_sub(length)?),
    };
    let script = args.script.unwrap_or(Script::V1_1);
    let end = write(&db, start, script, (ticks.unsigned_abs(), every))?;
    output::eprint("\n");

    let window = length.checked_mul(2).unwrap_or(SignedDuration::MAX);
    let window = window.max(SignedDuration::from_mins(1)).unsigned_abs();
    let words = Words {
        since: written(window),
        tz: args.tz.clone(),
        ..Words::default()
    };
    let zone = match start == Some(STAGE) {
        true => TimeZone::UTC,
        false => context.zone(),
    };
    let asked = words.ask(&zone, end)?;
    let report = location::file_at(db).report(&asked.question)?;
    output::data(&text(&Page {
        width: args.width.into(),
        ..asked.page(&report, VERSION)
    }))
}

/// Rejects the history of a real host, which must not contain simulated telemetry.
pub(crate) fn refuse_real(db: &Path) -> anyhow::Result<()> {
    if let Ok(history) = History::open(db)
        && history.host()?.is_some_and(|host| host != HOST)
    {
        let problem = format!(
            "{} was recorded by a collector and must not contain simulated telemetry",
            db.display()
        );
        bail!(Failure::usage(problem).hint("pass another file with --db, or leave it out"));
    }
    Ok(())
}

/// Writes this number of ticks at an interval, and returns the end time. With a `start`, time is simulated and advances only
/// with each tick; without one, it is real.
fn write(
    db: &Path,
    start: Option<Timestamp>,
    script: Script,
    (ticks, interval): (u32, Duration),
) -> anyhow::Result<Timestamp> {
    let options = WriterOptions::default();
    let mut store = Store::open(db, OpenMode::CreateOrAppend, &options)?;
    let mut now = start.unwrap_or_else(clock::now);
    if ticks == 0 {
        store.close()?;
        return Ok(now);
    }
    let run = store.begin_run(&new_run(now, interval))?;
    let began = clock::monotonic();
    for number in 0..ticks {
        let since_boot = interval.saturating_mul(number);
        if start.is_none() {
            // Relative to the first tick, so that delays do not accumulate.
            let left = since_boot.saturating_sub(clock::monotonic().saturating_sub(began));
            std::thread::sleep(left);
            now = clock::now();
        }
        let number = number.into();
        let sample = demo::sample(script, number, now, since_boot);
        let tick = Tick { sample, interval };
        store.record(run, &tick)?;
        output::eprint(&tick_line(number, &tick, &Thresholds::default()));
        if start.is_some() {
            now = now.checked_add(SignedDuration::try_from(interval)?)?;
        }
    }
    if start.is_none() {
        std::thread::sleep(Duration::from_millis(1));
        now = clock::now();
    }
    store.end_run(run, now)?;
    store.close()?;
    Ok(now)
}

/// Path of a new history for a demo without `--db`. Its directory is kept, so that the history can be examined.
pub(crate) fn fresh(context: &Context) -> anyhow::Result<PathBuf> {
    let directory = context.temporary_directory("gpu-usage-audit-demo")?;
    Ok(directory.join("demo.db"))
}

/// Runs a command on the month.
fn show(view: &DemoView, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    let own = match view {
        DemoView::Top(args) => &args.history.db,
        DemoView::Report(args) => &args.history.db,
        DemoView::Plot(args) => &args.history.db,
        DemoView::Html { .. } => &None,
    };
    if own.is_some() {
        let problem = "--db: the demo shows its own history";
        let hint = "leave `demo` out to show another one";
        bail!(Failure::usage(problem).hint(hint));
    }
    match view {
        DemoView::Top(args) => top::run_simulated(args, &Context::load_with_valid_flags(flags)?)?,
        DemoView::Report(args) => {
            let (context, _recorded) = simulated(flags)?;
            return report::run(args, OnTerminal::Screen, &context);
        }
        DemoView::Plot(args) => {
            let (context, _recorded) = simulated(flags)?;
            return plot::run(args, &context);
        }
        DemoView::Html { output, overwrite } => page(output, Over::of(*overwrite), flags)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the month that is the same for everyone, and returns the context of a command on it.
fn simulated(flags: &[FlagValue]) -> anyhow::Result<(Context, SimulatedMonth)> {
    remove_parts_on_signals(was_ignored);
    let recorded = SimulatedMonth::write(
        &Context::load_with_valid_flags(flags)?,
        Month::before(Month::END),
    )?;
    let context = Context::load_simulated(flags, &recorded.db, Month::END)?;
    Ok((context, recorded))
}

fn page(path: &Path, over: Over, flags: &[FlagValue]) -> anyhow::Result<()> {
    let is_stdout = path == Path::new("-");
    if !is_stdout {
        // Checked before the work.
        refuse_existing(path, over)?;
    }
    let (context, _recorded) = simulated(flags)?;
    let words = Words {
        detail: Detail::Charts,
        ..words()
    };
    let asked = words.ask(&context.zone(), context.now())?;
    let report = context.ask(|source| source.report(&asked.question))?;
    let page = html(&asked.page(&report, VERSION));
    if is_stdout {
        return output::data(&page);
    }
    write_new(path, page.as_bytes(), over)?;
    output::eprint(&format!("{}: open it in a browser\n", path.display()));
    Ok(())
}

fn words() -> Words {
    Words {
        since: "30d".to_owned(),
        ..Words::default()
    }
}

/// Prints the month in a few lines, and what to type next.
fn glance(args: &RecordDemoArgs, flags: &[FlagValue]) -> anyhow::Result<()> {
    let (context, _recorded) = simulated(flags)?;
    let words = Words {
        tz: args.tz.clone(),
        ..words()
    };
    let asked = words.ask(&context.zone(), context.now())?;
    let report = context.ask(|source| source.report(&asked.question))?;
    let page = Page {
        width: args.width.into(),
        ..asked.page(&report, VERSION)
    };
    let end = context.now().to_zoned(page.zone.clone());
    let end = end.strftime("%Y-%m-%d %H:%M");
    output::data(&format!(
        "A simulated month: 8 GPUs and 7 people, up to {end} {}\n{}\n{NEXT}",
        page.zone_name(),
        gua_render::report::glance(&page),
    ))
}

const NEXT: &str = "\
Look closer:  gua demo top    gua demo report    gua demo html    gua demo plot
Your GPUs:    gua doctor      gua list           gua daemon       gua report
";
