//! `gua enroll`: spends a one-time token on a place at a board. All that could fail on this side is tried before.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::board::{Client, CloudFile, Endpoint};
use gua_model::text::sanitize;
use gua_probe::host;
use gua_wire::enroll::AboutHost;
use gua_wire::{ClaimRequest, CloudConfig, ServerUrl, Token};

use crate::cli::EnrollArgs;
use crate::config::inputs::{TOKEN_VARIABLE, enrollment_token};
use crate::config::{Loaded, Settings};
use crate::dispatch::VERSION;
use crate::failure::{Exit, Failure};
use crate::{driver, output, which};

/// A line that is longer is no token.
const LONGEST_LINE: u64 = 64 * 1024;

pub fn run(args: &EnrollArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let settings = &loaded.settings;
    let board = board(settings)?;
    let way =
        Endpoint::to(&board, &super::options(loaded)).map_err(|error| super::no_way(&error))?;
    let client = Client::new(way);
    let file = CloudFile::at(&settings.cloud.config.value);
    if file.is_there() && !args.force {
        return Err(Failure::usage(format!(
            "this host is enrolled already: `{}` is there",
            file.path().display()
        ))
        .hint("--force replaces it, --config names another file, `gua unenroll` forgets it")
        .into());
    }
    let before = file.load().ok();
    let token = token(args)?;
    let cannot_save = || format!("cannot save the enrolment at `{}`", file.path().display());
    // Before the token is spent.
    let place = file.prepare().with_context(cannot_save)?;
    let hostname = args.hostname.clone().unwrap_or_else(host::name);
    let agent_version = args.agent_version.as_deref().unwrap_or(VERSION);
    let driver_version = driver_version(args, settings);
    let about = AboutHost {
        hostname: &hostname,
        agent_version,
        driver_version: driver_version.as_deref().unwrap_or_default(),
    };
    let claim = ClaimRequest::new(token.clone(), about)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let answer = client.claim(&claim, &token)?;
    let config = CloudConfig::enrolled(board, answer);
    place.save(&config).map_err(|error| {
        anyhow::Error::new(error).context(cannot_save()).context(
            "the board has accepted the one-time token, which is spent now; ask it for a new one",
        )
    })?;
    // What was kept for the board of before is not for this one.
    let waited = super::forget_link(loaded, &which::history(loaded), before.as_ref());
    output::data(&format!(
        "gua enroll: connected host {} ({})\n  token prefix: {}\n  config: {}{waited}\n  next: gua sync-once{}\n",
        sanitize(&token.hide_in(&config.shown_name())),
        sanitize(&token.hide_in(&config.agent_token.hide_in(&config.host_id))),
        sanitize(&token.hide_in(&config.shown_prefix())),
        file.path().display(),
        flags_to_come(args)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn board(settings: &Settings) -> Result<ServerUrl, Failure> {
    settings.cloud.url.value.clone().ok_or_else(|| {
        Failure::usage("which board? --server-url is missing, and cloud.url is not configured")
            .hint("for example: gua enroll --server-url https://board.example.com --enrollment-token -")
    })
}

/// From the flag, standard input or the environment. What is wrong with it is told without it.
fn token(args: &EnrollArgs) -> anyhow::Result<Token> {
    let given = args
        .enrollment_token
        .as_ref()
        .map(|secret| secret.0.clone());
    let was_seen = given.as_ref().is_some_and(|text| text.trim() != "-");
    if was_seen {
        output::talk(&format!(
            "gua enroll: every user of this host can read a command line, and so this token; `--enrollment-token -` or {TOKEN_VARIABLE} keeps it to yourself\n"
        ));
    }
    let text = match given.or_else(enrollment_token) {
        Some(text) if text.trim() == "-" => typed()?,
        Some(text) => text,
        None => {
            return Err(Failure::usage(format!(
                "no token: neither --enrollment-token nor {TOKEN_VARIABLE} is given"
            ))
            .hint("the board shows a one-time token; `--enrollment-token -` reads it from standard input")
            .into());
        }
    };
    Ok(Token::new(&text).map_err(|error| Failure::usage(error.to_string()))?)
}

/// The first line of standard input. A terminal does not show it.
fn typed() -> Result<String, Failure> {
    let input = io::stdin();
    let read = if input.is_terminal() {
        let prompt = "one-time token of the board (it is not shown): ";
        super::hidden_input::read_line(prompt, LONGEST_LINE)
    } else {
        let mut line = String::new();
        let read = input.lock().take(LONGEST_LINE).read_line(&mut line);
        read.map(|_| line)
    };
    read.map_err(|error| Failure {
        exit: Exit::Failed,
        message: format!("cannot read the token from standard input: {error}"),
        hint: None,
    })
}

/// A host without a driver can enrol too.
fn driver_version(args: &EnrollArgs, settings: &Settings) -> Option<String> {
    if let Some(version) = &args.driver_version {
        return Some(version.clone());
    }
    let mut reader = driver::reader(settings);
    let sample = driver::sample(&mut reader).ok()?;
    sample.driver.version.ok()
}

/// What the next command needs as well, unless the configuration says it.
fn flags_to_come(args: &EnrollArgs) -> String {
    let mut text = String::new();
    let mut add = |flag: &str, path: &std::path::Path| {
        let path = path.to_string_lossy();
        let path = shlex::try_quote(&path).unwrap_or_default();
        text.push_str(&format!(" {flag} {path}"));
    };
    if let Some(path) = &args.enrolment.config {
        add("--config", path);
    }
    if let Some(path) = &args.way.ca_file {
        add("--ca-file", path);
    }
    if args.way.allow_http {
        text.push_str(" --allow-http");
    }
    text
}
