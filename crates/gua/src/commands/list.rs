//! `gua list`: lists every GPU with its holders and state, once or repeatedly.

mod watch;

use gua_collector::listing;
use gua_model::Sample;
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;
use gua_render::document::pretty;
use gua_render::listing::ListDocument;
use gua_render::listing::text::{Detail, text};
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
            let mut text = text(sample, &rows, width, detail, &|key, detail| {
                let line = command_line(&root, key).ok()?;
                Some(match detail {
                    Detail::Whole => line.to_string(),
                    _ => line.in_short().to_string(),
                })
            });
            for problem in sample.problems.iter().filter(|_| args.wide) {
                text.push_str(&format!("{problem}\n"));
            }
            text
        }
    })
}
