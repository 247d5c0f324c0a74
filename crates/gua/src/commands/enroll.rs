//! `gua enroll`: enrols this host at a board with a one-time token. Everything that can fail locally is checked before
//! the token is spent.

mod hidden_input;

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use gua_collector::board::{CloudFile, ConnectOptions, Endpoint, cloud_file, setup};
use gua_collector::service::collector;
use gua_probe::host;
use gua_settings::Settings;
use gua_settings::inputs::{TOKEN_VARIABLE, enrollment_token};
use gua_wire::enroll::AboutHost;
use gua_wire::{ClaimRequest, ServerUrl, Token};
use rustix::process::geteuid;

use self::hidden_input::EchoGuard;
use crate::commands::prelude::*;
use crate::failure::quoted;

/// Maximum length of a token.
const MAX_LINE: u64 = 64 * 1024;

pub fn run(args: &EnrollArgs, context: &Context) -> anyhow::Result<()> {
    let settings = context.settings();
    let board = board(settings)?;
    let options = ConnectOptions {
        pin: args.pin,
        ..setup::connect_options(&context.loaded)
    };
    let endpoint =
        Endpoint::new(&board, &options).map_err(|error| setup::endpoint_failure(&error))?;
    let file = CloudFile::at(&settings.cloud.config.value);
    if file.exists() && !args.force {
        bail!(Failure::usage(format!(
            "this host is already enrolled: `{}` exists",
            file.path().display()
        ))
        .hint("replace it with --force, remove it with `gua unenroll`, or pass another file with --config"));
    }
    let before = file.load().ok();
    let token = token(args)?;
    let cannot_save = || format!("cannot save enrolment `{}`", file.path().display());
    // Before the token is spent.
    let prepared = file.prepare().with_context(cannot_save)?;
    let hostname = args.hostname.clone().unwrap_or_else(host::name);
    let agent_version = args.agent_version.as_deref().unwrap_or(VERSION);
    let driver_version = driver_version(args, context);
    let about = AboutHost {
        hostname: &hostname,
        agent_version,
        driver_version: driver_version.as_deref().unwrap_or_default(),
    };
    let claim = ClaimRequest::new(token.clone(), about)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let config = endpoint.claim(&claim, &token, args.pin)?;
    cloud_file::save(prepared, &config).map_err(|error| {
        anyhow::Error::new(error).context(cannot_save()).context(
            "the board has accepted the one-time token, which is now used up; request a new one",
        )
    })?;
    // Pushes for the previous board must not go to this one.
    let mut dropped = super::unenroll::remove_link(context, before.as_ref());
    dropped.extend(collector::follow_enrolment(file.path()));
    let flags = next_flags(args);
    output::data(&format!(
        "gua enroll: connected host {} ({})\n  token prefix: {}\n  config: {}{dropped}\n  next: {}{}\n",
        sanitize(&token.hide_in(&config.shown_name())),
        sanitize(&token.hide_in(&config.agent_token.hide_in(&config.host_id))),
        sanitize(&token.hide_in(&config.shown_prefix())),
        file.path().display(),
        // Root can install a service that survives a restart of the host. It has no flags for a board of one's own.
        match geteuid().is_root() && flags.is_empty() {
            true => "gua service install --cloud",
            false => "gua daemon --cloud",
        },
        flags
    ))
}

fn board(settings: &Settings) -> Result<ServerUrl, Failure> {
    settings.cloud.url.value.clone().ok_or_else(|| {
        Failure::usage("--server-url is missing and cloud.url is not configured").hint(
            "for example: gua enroll --server-url https://board.example.com --enrollment-token -",
        )
    })
}

/// Reads the token from the flag, standard input or the environment. Errors do not contain it.
fn token(args: &EnrollArgs) -> anyhow::Result<Token> {
    let given = args
        .enrollment_token
        .as_ref()
        .map(|secret| secret.0.clone());
    let is_visible = given.as_ref().is_some_and(|text| text.trim() != "-");
    if is_visible {
        output::eprint(&format!(
            "gua enroll: every user of this host can see this token on the command line; use `--enrollment-token -` or {TOKEN_VARIABLE} instead\n"
        ));
    }
    let text = match given.or_else(enrollment_token) {
        Some(text) if text.trim() == "-" => typed("one-time token of the board")?,
        Some(text) => text,
        None => {
            bail!(Failure::usage(format!(
                "no token: pass --enrollment-token or set {TOKEN_VARIABLE}"
            ))
            .hint("the board shows a one-time token; `--enrollment-token -` reads it from standard input"));
        }
    };
    Ok(Token::new(&text).map_err(|error| Failure::usage(error.to_string()))?)
}

/// Reads the first line of standard input, without echo on a terminal.
pub(super) fn typed(what: &str) -> Result<String, Failure> {
    let input = io::stdin();
    let cannot = |error| {
        Failure::failed(format!(
            "cannot read the token from standard input: {error}"
        ))
    };
    let hidden = input.is_terminal().then(EchoGuard::new);
    let hidden = hidden.transpose().map_err(cannot)?;
    if hidden.is_some() {
        output::eprint(&format!("{what} (not displayed): "));
    }
    let mut line = String::new();
    let read = input.lock().take(MAX_LINE).read_line(&mut line);
    read.map(|_| line).map_err(cannot)
}

/// The driver's version; `None` on a host without a driver, which can be enrolled too.
fn driver_version(args: &EnrollArgs, context: &Context) -> Option<String> {
    if let Some(version) = &args.driver_version {
        return Some(version.clone());
    }
    context.sample().ok()?.driver.version.ok()
}

/// Flags that the next command needs too, unless they are configured.
fn next_flags(args: &EnrollArgs) -> String {
    let paths = [
        ("--config", &args.enrolment.config),
        ("--ca-file", &args.way.ca_file),
    ];
    let mut text = String::new();
    for (flag, path) in paths {
        if let Some(path) = path {
            text.push_str(&format!(" {flag} {}", quoted(path)));
        }
    }
    if args.way.allow_http {
        text.push_str(" --allow-http");
    }
    text
}
