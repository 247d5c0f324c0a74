//! `gua list`: lists every GPU with its holders and state, once or repeatedly.

mod document;
pub mod row;
pub mod table;
mod watch;
pub mod words;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use gua_model::Sample;
use gua_model::pick::Order;
use gua_probe::host::time::ticks_per_second;
use gua_render::document::pretty;
use gua_render::listing::ListDocument;
use gua_render::table::{CsvHeader, csv_headed};

use crate::claims;
use crate::claims::words::Names;
use crate::cli::{ListArgs, TableFormat};
use crate::config::Loaded;
use crate::{driver, look, output};
use document::document;
use row::{Leased, Row, Terms};
use table::Detail;

/// Width of a terminal that does not report its own.
const USUAL_WIDTH: usize = 80;

pub fn run(args: &ListArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let settings = &loaded.settings;
    let mut reader = driver::reader(settings);
    let Some(interval) = args.watch else {
        let sample = driver::sample(&mut reader)?;
        output::data(&page(args, loaded, &sample, First::Yes)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    watch::run(args, loaded, &mut reader, interval)
}

/// Whether this is the first output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Yes,
    No,
}

fn page(args: &ListArgs, loaded: &Loaded, sample: &Sample, first: First) -> anyhow::Result<String> {
    let format = args.format.wanted();
    let (rows, unread) = rows(loaded, sample, args.order.as_ref());
    if let Some(unread) = &unread
        && first == First::Yes
        && format != TableFormat::Json
    {
        output::talk(&format!("gua list: claims are not shown: {unread}\n"));
    }
    Ok(match format {
        TableFormat::Json => {
            let document = document(sample, &rows, unread.as_deref());
            match args.watch {
                Some(_) => serde_json::to_string(&document)? + "\n",
                None => pretty(&document),
            }
        }
        TableFormat::Csv => {
            let document = document(sample, &rows, unread.as_deref());
            let header = match first {
                First::Yes => CsvHeader::Yes,
                First::No => CsvHeader::No,
            };
            csv_headed(&document.table(), header)
        }
        TableFormat::Text => {
            let width = if args.wide { None } else { width() };
            let detail = match args.wide {
                true => Detail::Whole,
                false => Detail::Usual,
            };
            let mut text = table::text(sample, &rows, width, detail);
            for problem in sample.problems.iter().filter(|_| args.wide) {
                text.push_str(&format!("{problem}\n"));
            }
            text
        }
    })
}

/// JSON document of `gua list --json` for a sample.
#[must_use]
pub fn listing(loaded: &Loaded, sample: &Sample) -> ListDocument {
    let (rows, unread) = rows(loaded, sample, None);
    document(sample, &rows, unread.as_deref())
}

/// Rows of the listing, and the error if the claims could not be read.
fn rows<'a>(
    loaded: &Loaded,
    sample: &'a Sample,
    order: Option<&Order>,
) -> (Vec<Row<'a>>, Option<String>) {
    let terms = Terms {
        thresholds: loaded.settings.thresholds(),
        ticks_per_second: ticks_per_second(),
    };
    let mut rows = row::rows(sample, &terms, order);
    remember(&mut rows, loaded, sample);
    let unread = note_claims(&mut rows, loaded, sample);
    (rows, unread)
}

/// Adds the start of each GPU's state, if a daemon is running.
fn remember(rows: &mut [Row<'_>], loaded: &Loaded, sample: &Sample) {
    let states: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row.gpu?.uuid.clone(), row.condition.state?.roll_up()?)))
        .collect();
    let since = look::since(loaded, states, sample.at);
    for row in rows {
        row.condition.since = row.gpu.and_then(|gpu| since.get(&gpu.uuid).copied());
    }
}

/// Adds the leases of the GPUs; returns the error if they could not be read.
fn note_claims(rows: &mut [Row<'_>], loaded: &Loaded, sample: &Sample) -> Option<String> {
    let taken = match claims::taken(&loaded.settings, sample, Vec::new()) {
        Ok(taken) => taken,
        Err(error) => return Some(error),
    };
    if taken.survey.claims.is_empty() {
        return None;
    }
    let mut names = Names::default();
    for row in rows {
        let Some(gpu) = row.gpu else { continue };
        let on_it =
            |live: &&gua_claim::LiveClaim| live.cards.iter().any(|card| card.gpu == gpu.uuid);
        for live in taken.survey.claims.iter().filter(on_it) {
            row.claims.push(Leased {
                text: names.claim(live, sample.at),
                user: names.user(live.claim.owner),
                listed: names.listed(live, sample.at),
            });
        }
    }
    None
}

/// Width of the terminal; `None` for a file or a pipe.
fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let width = rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
    Some(if width == 0 { USUAL_WIDTH } else { width })
}
