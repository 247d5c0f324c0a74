//! The simulated month of `gua demo` and `gua top --fake`: a history in a temporary directory, written with the real store
//! and removed when the command ends.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gua_files::{Over, TemporaryDirectory, remove_parts_on_signals};
use gua_model::demo::month::Month;
use gua_model::failure::Failure;
use gua_probe::process::ignored::was_ignored;
use gua_render::report::{self, Page, Words, html};
use gua_settings::FlagValue;
use gua_store::{OpenMode, Store, WriterOptions};

use super::HOST;
use crate::cli::{DemoView, RecordDemoArgs};
use crate::commands::report::OnTerminal;
use crate::commands::{self, export, plot, top};
use crate::context::{Context, VERSION};
use crate::output;

/// A simulated month in a history file, which exists as long as this value.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) month: Month,
    pub(crate) db: PathBuf,
    /// Removed on drop.
    pub(crate) directory: TemporaryDirectory,
}

impl Recorded {
    /// Writes a month.
    pub(crate) fn write(context: &Context, month: Month) -> anyhow::Result<Self> {
        let directory = context.passing_directory("gua-demo-")?;
        let db = directory.path().join("demo.db");
        let mut store = Store::open(&db, OpenMode::Create, &WriterOptions::default())?;
        store.record_month(&month, HOST, VERSION)?;
        store.close()?;
        Ok(Self {
            month,
            db,
            directory,
        })
    }
}

/// Runs a command on the month.
pub(super) fn show(view: &DemoView, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    let own = match view {
        DemoView::Top(args) => &args.history.db,
        DemoView::Report(args) => &args.history.db,
        DemoView::Plot(args) => &args.history.db,
        DemoView::Html { .. } => &None,
    };
    if own.is_some() {
        let problem = "--db: the demo shows its own history";
        let hint = "leave `demo` out to show another one";
        return Err(Failure::usage(problem).hint(hint).into());
    }
    if let DemoView::Top(args) = view {
        top::run_simulated(args, &Context::load_with_valid_flags(flags)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let DemoView::Html { output, overwrite } = view
        && output != Path::new("-")
    {
        // Checked before the work.
        export::refuse_existing(output, Over::of(*overwrite))?;
    }
    let (context, _recorded) = simulated(flags)?;
    match view {
        DemoView::Top(_) => {}
        DemoView::Report(args) => {
            return commands::report::run(args, OnTerminal::Screen, &context);
        }
        DemoView::Plot(args) => return plot::run(args, &context),
        DemoView::Html { output, overwrite } => page(&context, output, Over::of(*overwrite))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the month that is the same for everyone, and returns the context of a command on it.
fn simulated(flags: &[FlagValue]) -> anyhow::Result<(Context, Recorded)> {
    remove_parts_on_signals(was_ignored);
    let recorded = Recorded::write(
        &Context::load_with_valid_flags(flags)?,
        Month::before(Month::END),
    )?;
    let context = Context::load_simulated(flags, &recorded.db, Month::END)?;
    Ok((context, recorded))
}

fn page(context: &Context, path: &Path, over: Over) -> anyhow::Result<()> {
    let asked = words().ask(&context.zone(), context.now())?;
    let report = context.ask(|source| source.report(&asked.question))?;
    let page = html(&asked.page(&report, VERSION));
    if path == Path::new("-") {
        return output::data(&page);
    }
    let what = format!("cannot write `{}`", path.display());
    gua_files::write(path, page.as_bytes(), over).map_err(Failure::because(what))?;
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
pub(super) fn glance(args: &RecordDemoArgs, flags: &[FlagValue]) -> anyhow::Result<()> {
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
        report::glance(&page),
    ))
}

const NEXT: &str = "\
Look closer:  gua demo top    gua demo report    gua demo html    gua demo plot
Your GPUs:    gua doctor      gua list           gua daemon       gua report
";
