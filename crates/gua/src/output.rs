//! The only way to stdout and stderr. A reader that went away is no error of ours; a full disk is.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use gua_wire::Token;
use thiserror::Error;

/// Whoever read our output has closed it. The program then stops, and that is success.
#[derive(Clone, Copy, Debug, Error)]
#[error("the reader of the output went away")]
pub struct Closed;

/// Writes data to stdout. Colours in it are dropped unless the terminal, `NO_COLOR` and `--color` want them.
pub fn data(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    settle(written)
}

/// Writes bytes to stdout as they are.
pub fn raw(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    settle(written)
}

/// Writes talk to stderr, without whatever looks like a token: it may repeat what was typed. When that is impossible
/// there is nobody left to tell.
pub fn talk(text: &str) {
    let text = Token::hide_all_in(text);
    let mut out = anstream::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Whether a person looks at stdout.
#[must_use]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

fn settle(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Closed.into()),
        other => other.context("cannot write to stdout"),
    }
}
