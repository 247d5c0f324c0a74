//! All output to stdout and stderr goes through this module. A closed pipe (EPIPE) is not an error; a full disk is.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use gua_wire::Token;
use thiserror::Error;

/// The reader of our output has closed the pipe. The program then exits with status 0.
#[derive(Clone, Copy, Debug, Error)]
#[error("the reader of the output closed the pipe")]
pub struct Closed;

/// Writes data to stdout. Colors are removed depending on the terminal, `NO_COLOR` and `--color`.
pub fn data(text: &str) -> anyhow::Result<()> {
    settle(put(anstream::stdout().lock(), text.as_bytes()))
}

/// Writes bytes to stdout as they are.
pub fn raw(bytes: &[u8]) -> anyhow::Result<()> {
    settle(put(io::stdout().lock(), bytes))
}

/// Writes a message to stderr. Anything that looks like a token is redacted, because messages may quote the command
/// line. Write errors are ignored: there is no other place to report them.
pub fn eprint(text: &str) {
    let text = Token::hide_all_in(text);
    let _ = put(anstream::stderr().lock(), text.as_bytes());
}

/// Rings the bell of the terminal on stderr, if it is one.
pub fn bell() {
    let mut out = io::stderr();
    if out.is_terminal() {
        let _ = out.write_all(b"\x07");
    }
}

/// Width of a terminal that does not report its own.
const USUAL_WIDTH: usize = 80;

/// Number of columns of the terminal; `None` if stdout is not a terminal.
pub fn width() -> Option<usize> {
    is_terminal().then(|| columns().unwrap_or(USUAL_WIDTH))
}

/// Wraps a page between words if stdout is a terminal.
pub fn wrapped(page: String) -> String {
    match width() {
        Some(width) => gua_model::text::wrapped_page(&page, width),
        None => page,
    }
}

/// Number of columns that the terminal on stdout reports.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

fn put(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

fn settle(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Closed.into()),
        other => other.context("cannot write to stdout"),
    }
}
