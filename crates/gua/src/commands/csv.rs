//! `gua csv`: writes daily CSV files like gpu_stats, one sample per call, run manually or by a user timer.

mod timer;

use std::path::PathBuf;
use std::process::ExitCode;

use gua_collector::csv::{Appended, DayFiles};
use gua_compat::gpu_stats::{Form, Minute, lines};
use gua_model::text::counted;
use jiff::tz::TimeZone;

use crate::cli::CsvCommand;
use crate::config::kind::CsvFormat;
use crate::config::{Loaded, Settings};
use crate::failure::{Exit, Failure};
use crate::{driver, output};

/// Directory of gpu_stats below the home directory.
const USUAL: &str = "gpu_stats";

pub fn run(command: &CsvCommand, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    match command {
        CsvCommand::Sample(_) => sample(loaded),
        CsvCommand::Install(args) => timer::install(args, &loaded.settings),
        CsvCommand::Uninstall(args) => timer::uninstall(args),
    }
}

/// Configured format of the daily CSV.
pub(crate) fn form(settings: &Settings) -> Form {
    match settings.csv.format.value {
        CsvFormat::Classic => Form::Classic,
        CsvFormat::Full => Form::Full,
    }
}

/// Takes one sample and appends its rows.
fn sample(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let settings = &loaded.settings;
    let files = DayFiles::new(directory(loaded)?, form(settings));
    let mut reader = driver::reader(settings);
    let sample = driver::sample(&mut reader)?;
    // The minute of the readings; the clock may have moved on.
    let minute = Minute::of(sample.at, &TimeZone::system());
    let lines = lines(&sample, files.form(), minute, &settings.thresholds());
    if !lines.unread.is_empty() {
        output::talk(&format!("gua csv sample: {}\n", unread(&lines.unread)));
    }
    if lines.text.is_empty() {
        return Err(Failure {
            exit: Exit::Failed,
            message: "no row can be written: whether anybody is on the cards is not known"
                .to_owned(),
            hint: Some("`gua doctor` says what stands in the way".to_owned()),
        }
        .into());
    }
    match files.append(minute, &lines.text)? {
        Appended::Written { path, torn } => {
            if let Some(torn) = torn {
                output::talk(&format!(
                    "gua csv sample: the last line of {} was cut off; it is now in {}\n",
                    path.display(),
                    torn.display()
                ));
            }
            let rows = u64::try_from(lines.text.lines().count()).unwrap_or(u64::MAX);
            let rows = counted(rows, "row");
            output::data(&format!("{}: {rows}\n", path.display()))?;
        }
        Appended::Already { path } => {
            output::data(&format!(
                "{}: has rows of this minute already\n",
                path.display()
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn unread(cards: &[u32]) -> String {
    let numbers: Vec<String> = cards.iter().map(u32::to_string).collect();
    let numbers = numbers.join(", ");
    format!("the processes of GPU {numbers} could not be read; there is no row for them")
}

/// Configured directory, or the default one.
fn directory(loaded: &Loaded) -> Result<PathBuf, Failure> {
    if let Some(named) = named_directory(&loaded.settings) {
        return Ok(named);
    }
    let home = loaded.inputs.home.as_ref();
    home.map(|home| home.join(USUAL)).ok_or_else(|| {
        Failure::usage("your home directory is not known")
            .hint("set HOME, or name a directory with --dir")
    })
}

fn named_directory(settings: &Settings) -> Option<PathBuf> {
    let directory = settings.csv.dir.value.as_ref()?;
    Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
}
