//! `gua list`: lists every GPU with its holders and state, once or repeatedly.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use gua_collector::listing;
use gua_model::{ProcessKey, Sample};
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;
use gua_render::listing::ListDocument;
use gua_render::listing::text::{Detail, Options, text};
use gua_render::paint;
use gua_render::table::{CsvHeader, csv_headed};

use super::board::fleet;
use crate::commands::MIN_VIEW_INTERVAL;
use crate::commands::prelude::*;
use crate::context;

pub fn run(args: &ListArgs, context: &Context) -> anyhow::Result<()> {
    if let Some(board) = &args.board {
        return fleet::list(args, board, context);
    }
    let Some(interval) = args.watch else {
        let sample = context.sample()?;
        return output::data(&page(args, context, &sample, CsvHeader::Yes)?);
    };
    watch(args, context, interval)
}

/// Prints the list and a hint for `gua` without arguments. `None` if this host has no GPUs that can be read; the caller
/// then shows the usage.
pub fn overview() -> Option<()> {
    let context = Context::load(&[]).ok()?;
    let sample = context
        .sample()
        .ok()
        .filter(|sample| !sample.gpus.is_empty())?;
    let args = without_flags::<ListArgs>();
    let page = page(&args, &context, &sample, CsvHeader::Yes).ok()?;
    let hint = paint::muted();
    let hint = format!(
        "{hint}gua top: live view · gua report: past use · gua --help: all commands{hint:#}\n"
    );
    output::data(&(page + &hint)).ok()
}

/// Formats the listing. Only the first of several listings has a CSV header.
fn page(
    args: &ListArgs,
    context: &Context,
    sample: &Sample,
    first: CsvHeader,
) -> anyhow::Result<String> {
    let format = args.format.wanted();
    let (rows, unread) = listing::rows(&context.loaded, sample, args.order.as_ref());
    let document = || ListDocument::new(sample, &rows, unread.as_deref(), ticks_per_second());
    if let Some(unread) = &unread
        && first == CsvHeader::Yes
        && format != TableFormat::Json
    {
        output::eprint(&format!("gua list: cannot show claims: {unread}\n"));
    }
    Ok(match format {
        TableFormat::Json => match args.watch {
            Some(_) => serde_json::to_string(&document())? + "\n",
            None => pretty(&document()),
        },
        TableFormat::Csv => csv_headed(&document().table(), first),
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

/// Escape sequences to redraw the page: move the cursor to the top left, and clear the screen, a line or the lines
/// below.
const HOME: &str = "\u{1b}[H";
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Runs the loop. If the driver does not answer, a message is printed and the next sample is attempted.
fn watch(args: &ListArgs, context: &Context, interval: Duration) -> anyhow::Result<()> {
    if interval < MIN_VIEW_INTERVAL {
        bail!(Failure::usage("--watch must be at least 100ms"));
    }
    let mut reader = context.reader();
    let is_text = args.format.wanted() == TableFormat::Text;
    let redraws = is_text && io::stdout().is_terminal();
    let mut first = CsvHeader::Yes;
    // Consecutive samples without an answer of the driver.
    let mut unanswered = 0_u64;
    loop {
        let due = clock::monotonic().saturating_add(interval);
        match context::sample(&mut reader) {
            Ok(sample) => {
                if unanswered > 0 && !redraws {
                    output::eprint(&over(unanswered));
                }
                unanswered = 0;
                let page = page(args, context, &sample, first)?;
                output::data(&match (redraws, first) {
                    (true, first) => over_the_last(&page, first, height()),
                    (false, CsvHeader::No) if is_text => format!("\n{page}"),
                    (false, _) => page,
                })?;
                first = CsvHeader::No;
            }
            // Without any sample so far, this is an error as without --watch.
            Err(fault) if first == CsvHeader::Yes => return Err(fault.into()),
            Err(fault) => {
                unanswered += 1;
                // Printed only once per outage.
                if unanswered == 1 {
                    let message = format!("gua list: {}\n", chain(&fault));
                    match redraws {
                        true => output::data(&over_the_last(&message, first, height()))?,
                        false => output::eprint(&message),
                    }
                }
            }
        }
        std::thread::sleep(due.saturating_sub(clock::monotonic()));
    }
}

fn over(unanswered: u64) -> String {
    let samples = match unanswered {
        1 => "one failed sample".to_owned(),
        many => format!("{many} failed samples"),
    };
    format!("gua list: the driver answers again after {samples}\n")
}

/// Redraws the page over the previous one without flicker. Lines that do not fit the terminal would scroll the page, so
/// they are only counted.
fn over_the_last(page: &str, first: CsvHeader, height: Option<usize>) -> String {
    let begin = match first {
        CsvHeader::Yes => CLEAR,
        CsvHeader::No => HOME,
    };
    let lines: Vec<&str> = page.lines().collect();
    // One line is reserved for the cursor.
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(1).max(1));
    let mut text = begin.to_owned();
    let kept = match lines.len() > room {
        true => &lines[..room - 1],
        false => &lines[..],
    };
    for line in kept {
        text.push_str(&format!("{line}{CLEAR_LINE}\n"));
    }
    let left = lines.len() - kept.len();
    if left > 0 {
        text.push_str(&format!("… {left} more lines{CLEAR_LINE}\n"));
    }
    text.push_str(CLEAR_BELOW);
    text
}

/// Number of lines of the terminal, if it reports it.
fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0).then_some(size.ws_row.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_over_the_last_one_and_never_scrolls() {
        let check = |page: &str, height, expected: &str| {
            let text = over_the_last(page, CsvHeader::No, height);
            let text = text.replace(HOME, "").replace(CLEAR_LINE, "");
            assert_eq!(text.strip_suffix(CLEAR_BELOW), Some(expected));
        };
        check("a\nb\nc\n", None, "a\nb\nc\n");
        check("a\nb\nc\n", Some(4), "a\nb\nc\n");
        check("a\nb\nc\n", Some(3), "a\n… 2 more lines\n");
        check("a\nb\nc\n", Some(1), "… 3 more lines\n");
    }
}
