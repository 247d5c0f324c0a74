//! `gua alert`: the configured alerts, past messages, and test messages. The daemon sends the messages. `gua board alert` does
//! the same for those that a board sends.

use gua_collector::alert::{self, SenderState};
use gua_model::alert::Sender;

use crate::commands::prelude::*;

pub fn run(command: &AlertCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let sender = || SenderState::daemon(&context.loaded);
    match command {
        AlertCommand::List(listing) => list(&sender(), listing.format.wanted(), context),
        AlertCommand::History { listing, limit } => {
            history(&sender(), *limit, listing.format.wanted(), context)
        }
        AlertCommand::Test { name } => test(name.as_deref(), Sender::Daemon, context),
    }
}

/// Lists the alerts of a sender.
pub(super) fn list(
    sender: &SenderState,
    format: TableFormat,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let (document, problems) = alert::listed(&context.loaded, sender);
    output::data(&match format {
        TableFormat::Text => document.text(sender.by, &context.zone()),
        TableFormat::Csv => csv(&document.table()),
        TableFormat::Json => pretty(&document),
    })?;
    for problem in problems {
        output::eprint(&format!("gua alert list: {problem}\n"));
    }
    let alerts = context.settings().alerts.iter();
    let of_board = alerts.filter(|alert| alert.value.by == Sender::Board);
    let of_board = of_board.count() as u64;
    if sender.by == Sender::Daemon && of_board > 0 {
        let count = counted(of_board, "alert");
        output::eprint(&format!(
            "gua alert list: `gua board alert list` lists {count} of the board\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the messages of a sender.
pub(super) fn history(
    sender: &SenderState,
    limit: usize,
    format: TableFormat,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let document = alert::history(sender, limit).map_err(Failure::failed)?;
    output::data(&match format {
        TableFormat::Text => document.text(&context.zone()),
        TableFormat::Csv => csv(&document.table()),
        TableFormat::Json => pretty(&document),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a test message of each alert of a sender, or of one alert.
pub(super) fn test(name: Option<&str>, by: Sender, context: &Context) -> anyhow::Result<ExitCode> {
    let alerts = context.settings().alerts.iter().map(|alert| &alert.value);
    let alerts = alerts.filter(|alert| alert.by == by);
    let wanted = alerts
        .clone()
        .filter(|alert| name.is_none_or(|name| alert.name == name));
    let wanted: Vec<_> = wanted.collect();
    let (command, with) = match by {
        Sender::Daemon => ("gua alert", ""),
        Sender::Board => ("gua board alert", " with by = \"board\""),
    };
    if let (Some(name), true) = (name, wanted.is_empty()) {
        let near = suggestion(name, alerts.map(|alert| alert.name.as_str()));
        let message = format!("no alert is called `{}`{near}", sanitize(name));
        bail!(Failure::usage(message).hint(format!("`{command} list` lists them")));
    }
    if wanted.is_empty() {
        let hint = format!("docs/alerts.md explains [[alert]] tables{with}");
        bail!(Failure::usage("no alerts are configured").hint(hint));
    }
    let mut is_sent = true;
    for alert in wanted {
        let (name, kind) = (sanitize(&alert.name), alert.target.kind());
        match alert::test(&context.loaded, alert) {
            Ok(()) => output::data(&format!("{name}: sent to {kind}\n"))?,
            Err(error) => {
                is_sent = false;
                output::eprint(&format!("{command} test: {name}: {error}\n"));
            }
        }
    }
    Ok(success_or(Exit::Failed, is_sent))
}
