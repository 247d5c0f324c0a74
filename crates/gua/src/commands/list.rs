//! `gua list`: lists every GPU with its holders and state, once or repeatedly.

mod watch;

use gua_collector::listing;
use gua_model::{ProcessKey, Sample};
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;
use gua_render::document::pretty;
use gua_render::listing::ListDocument;
use gua_render::listing::text::{Detail, Options, text};
use gua_render::paint;
use gua_render::table::{CsvHeader, csv_headed};

use super::board::fleet;
use crate::cli::{ListArgs, TableFormat};
use crate::context::Context;
use crate::output;

pub fn run(args: &ListArgs, context: &Context) -> anyhow::Result<()> {
    if let Some(board) = &args.board {
        return fleet::list(args, board, context);
    }
    let Some(interval) = args.watch else {
        let sample = context.sample()?;
        return output::data(&page(args, context, &sample, First::Yes)?);
    };
    watch::run(args, context, interval)
}

/// Prints the list and a hint for `gua` without arguments. `None` if this host has no GPUs that can be read; the caller
/// then shows the usage.
pub fn overview() -> Option<()> {
    let context = Context::load(&[]).ok()?;
    let sample = context
        .sample()
        .ok()
        .filter(|sample| !sample.gpus.is_empty())?;
    let args = ListArgs::default();
    let page = page(&args, &context, &sample, First::Yes).ok()?;
    let hint = paint::muted();
    let hint = format!(
        "{hint}gua top: live view · gua report: past use · gua --help: all commands{hint:#}\n"
    );
    output::data(&(page + &hint)).ok()
}

/// Whether this is the first output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Yes,
    No,
}

fn page(
    args: &ListArgs,
    context: &Context,
    sample: &Sample,
    first: First,
) -> anyhow::Result<String> {
    let format = args.format.wanted();
    let (rows, unread) = listing::rows(&context.loaded, sample, args.order.as_ref());
    let document = || ListDocument::new(sample, &rows, unread.as_deref(), ticks_per_second());
    if let Some(unread) = &unread
        && first == First::Yes
        && format != TableFormat::Json
    {
        output::eprint(&format!("gua list: cannot show claims: {unread}\n"));
    }
    Ok(match format {
        TableFormat::Json => match args.watch {
            Some(_) => serde_json::to_string(&document())? + "\n",
            None => pretty(&document()),
        },
        TableFormat::Csv => {
            let header = match first {
                First::Yes => CsvHeader::Yes,
                First::No => CsvHeader::No,
            };
            csv_headed(&document().table(), header)
        }
        TableFormat::Text => {
            let (width, detail) = match args.wide {
                true => (None, Detail::Whole),
                false => (output::width(), Detail::Usual),
            };
            let root = ProcRoot::default();
            let commands = |key: &ProcessKey, detail| {
                let line = command_line(&root, key).ok()?;
                Some(match detail {
                    Detail::Whole => line.to_string(),
                    _ => line.in_short().to_string(),
                })
            };
            let options = Options {
                width,
                detail,
                ticks_per_second: ticks_per_second(),
                commands: &commands,
            };
            let mut text = text(sample, &rows, options);
            for problem in sample.problems.iter().filter(|_| args.wide) {
                text.push_str(&format!("{problem}\n"));
            }
            text
        }
    })
}
