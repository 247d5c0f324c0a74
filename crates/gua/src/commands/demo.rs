//! `gua demo`: shows a simulated month (`month`), or records and reports the demo of gpu-usage-audit. Both use the real
//! store and report code. The clock is simulated unless `--real-time` is given.

pub(crate) mod month;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use gua_collector::location;
use gua_collector::tick_line::tick_line;
use gua_model::demo::{self, Script};
use gua_model::duration::{Clockwise, written};
use gua_model::{Thresholds, Tick};
use gua_probe::clock;
use gua_render::report::{Page, Words, text};
use gua_settings::FlagValue;
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cli::{DemoArgs, DemoScript, RecordDemoArgs};
use crate::context::{Context, VERSION};
use crate::failure::Failure;
use crate::output;

/// Start time of a recorded demo without `--db`. It is constant, so that the output is always the same.
const STAGE: Timestamp = Timestamp::constant(1_778_490_000, 0);
/// Host name of simulated telemetry.
pub(crate) const HOST: &str = "demo";

pub fn run(args: &DemoArgs, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    match &args.view {
        None if args.recording.is_wanted() => record(&args.recording, &Context::load(flags)?)?,
        None => month::glance(&args.recording, flags)?,
        Some(view) => return month::show(view, flags),
    }
    Ok(ExitCode::SUCCESS)
}

/// Records and reports the demo of gpu-usage-audit.
pub fn record(args: &RecordDemoArgs, context: &Context) -> anyhow::Result<()> {
    let ticks = args.ticks.unwrap_or(30);
    let every = args.interval.unwrap_or(Duration::from_secs(1));
    let interval = SignedDuration::try_from(every).context("the interval is too long")?;
    if every.is_zero() && ticks > 0 {
        return Err(Failure::usage("--interval must be greater than zero").into());
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
    let clock = match (args.real_time, &args.db) {
        (true, _) => Clock::Real,
        (false, None) => Clock::From(STAGE),
        // A history that is kept ends now, so that `gua report` finds it.
        (false, Some(_)) => Clock::From(clock::now().checked_sub(length)?),
    };
    let script = match args.script.unwrap_or_default() {
        DemoScript::V1_1 => Script::V1_1,
        DemoScript::V1_8 => Script::V1_8,
    };
    let end = write(&db, clock, script, (ticks.unsigned_abs(), every))?;
    output::eprint("\n");

    let window = length.checked_mul(2).unwrap_or(SignedDuration::MAX);
    let window = window.max(SignedDuration::from_mins(1)).unsigned_abs();
    let words = Words {
        since: written(window),
        tz: args.tz.clone(),
        ..Words::default()
    };
    let zone = match clock {
        Clock::From(start) if start == STAGE => TimeZone::UTC,
        _ => TimeZone::system(),
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
        return Err(Failure::usage(problem)
            .hint("pass another file with --db, or leave it out")
            .into());
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    /// Real time.
    Real,
    /// Simulated time that starts here and advances only with each tick.
    From(Timestamp),
}

/// Writes this number of ticks at an interval. Returns the end time.
fn write(
    db: &Path,
    clock: Clock,
    script: Script,
    (ticks, interval): (u32, Duration),
) -> anyhow::Result<Timestamp> {
    let options = WriterOptions::default();
    let mut store = Store::open(db, OpenMode::CreateOrAppend, &options)?;
    let mut now = match clock {
        Clock::Real => clock::now(),
        Clock::From(start) => start,
    };
    if ticks == 0 {
        store.close()?;
        return Ok(now);
    }
    let run = store.begin_run(&NewRun {
        started: now,
        interval,
        host: HOST.to_owned(),
        version: VERSION.to_owned(),
        boot: None,
    })?;
    let began = clock::monotonic();
    for number in 0..ticks {
        let since_boot = interval.saturating_mul(number);
        if let Clock::Real = clock {
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
        now = match clock {
            Clock::Real => now,
            Clock::From(_) => now.checked_add(SignedDuration::try_from(interval)?)?,
        };
    }
    if let Clock::Real = clock {
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
