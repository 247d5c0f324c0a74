//! `gua alert`: the configured alerts, past messages, and test messages. The daemon sends the messages.

use std::process::ExitCode;

use gua_collector::alert;
use gua_model::text::sanitize;
use gua_render::document::pretty;
use gua_render::table::csv;

use crate::cli::{AlertCommand, TableFormat, suggestion};
use crate::context::Context;
use crate::failure::{Exit, Failure, success_or};
use crate::output;

pub fn run(command: &AlertCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        AlertCommand::List { format, .. } => {
            let document = alert::listed(&context.loaded);
            output::data(&match format.wanted() {
                TableFormat::Text => document.text(&context.zone()),
                TableFormat::Csv => csv(&document.table()),
                TableFormat::Json => pretty(&document),
            })?;
        }
        AlertCommand::History { format, limit, .. } => {
            let document = alert::history(&context.loaded, *limit).map_err(Failure::failed)?;
            output::data(&match format.wanted() {
                TableFormat::Text => document.text(&context.zone()),
                TableFormat::Csv => csv(&document.table()),
                TableFormat::Json => pretty(&document),
            })?;
        }
        AlertCommand::Test { name } => return test(name.as_deref(), context),
    }
    Ok(ExitCode::SUCCESS)
}

fn test(name: Option<&str>, context: &Context) -> anyhow::Result<ExitCode> {
    let alerts = context.settings().alerts.iter().map(|alert| &alert.value);
    let wanted = alerts
        .clone()
        .filter(|alert| name.is_none_or(|name| alert.name == name));
    let wanted: Vec<_> = wanted.collect();
    if let (Some(name), true) = (name, wanted.is_empty()) {
        let near = suggestion(name, alerts.map(|alert| alert.name.as_str()));
        let message = format!("no alert is called `{}`{near}", sanitize(name));
        return Err(Failure::usage(message)
            .hint("`gua alert list` lists them")
            .into());
    }
    if wanted.is_empty() {
        let failure = Failure::usage("no alerts are configured");
        return Err(failure
            .hint("docs/alerts.md explains [[alert]] tables")
            .into());
    }
    let mut is_sent = true;
    for alert in wanted {
        let (name, kind) = (sanitize(&alert.name), alert.target.kind());
        match alert::test(&context.loaded, alert) {
            Ok(()) => output::data(&format!("{name}: sent to {kind}\n"))?,
            Err(error) => {
                is_sent = false;
                output::eprint(&format!("gua alert test: {name}: {error}\n"));
            }
        }
    }
    Ok(success_or(Exit::Failed, is_sent))
}
