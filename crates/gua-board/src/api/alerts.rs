//! The alerts of the board, and their messages about the hosts of a workspace.

use std::collections::HashSet;

use gua_render::alert::{AlertHistoryDocument, AlertRow, DeliveryRow};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{List, PAGE_ITEMS};
use crate::call::Call;
use crate::error::Problem;

/// An alert in the configuration of the board. It applies to the hosts of all workspaces.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfiguredAlert {
    pub(crate) name: String,
    /// The conditions, with commas between them.
    pub(crate) when: String,
    /// Kind of the destination.
    pub(crate) to: &'static str,
    /// Minimum length of idle time, gaps and silence; `null` for the defaults.
    pub(crate) longer_than: Option<String>,
    pub(crate) cool_down: String,
    /// Time of the day in which nothing is sent.
    pub(crate) quiet: Option<String>,
    /// Why its messages cannot be sent.
    pub(crate) problem: Option<String>,
}

/// The alerts in the configuration.
pub(crate) fn configured_alerts(call: &Call) -> Result<List<ConfiguredAlert>, Problem> {
    let Some(list) = &call.app.options.alert_list else {
        return Ok(List { items: Vec::new() });
    };
    let alerts = list().map_err(|_| {
        Problem::NoHistory("the board's configuration has an error; see its log".to_owned())
    })?;
    let entry = |row: AlertRow| ConfiguredAlert {
        name: row.name,
        when: row.when,
        to: row.to,
        longer_than: row.longer_than,
        cool_down: row.cool_down,
        quiet: row.quiet,
        problem: row.problem,
    };
    Ok(List {
        items: alerts.alerts.into_iter().map(entry).collect(),
    })
}

/// A message of an alert, and its delivery.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertEntry {
    pub(crate) id: String,
    /// Time at which it was delivered or given up; for a waiting message, the time at which the condition was found.
    pub(crate) at: Timestamp,
    /// Name of the alert in the configuration of the board.
    pub(crate) alert: String,
    /// The condition, such as `silent`.
    pub(crate) when: String,
    /// The host; `null` if it is about several hosts, or about one that is no longer enrolled.
    pub(crate) host: Option<String>,
    /// Name of the host, or of the first ones of several.
    pub(crate) host_name: String,
    /// The person that it is about; `null` if it is about none, or if the caller may not see names.
    pub(crate) user: Option<String>,
    /// Kind of the destination.
    pub(crate) to: String,
    /// `sent`, `waiting` or `failed`.
    pub(crate) status: &'static str,
    pub(crate) attempts: u32,
    /// Error of the last attempt, which can quote the address of a person; `null` if the caller may not see names.
    pub(crate) error: Option<String>,
    /// Title of the message; `null` if it names a person whom the caller may not see.
    pub(crate) title: Option<String>,
}

/// The latest messages about hosts of the workspace, the latest first. Its admins see all hosts.
pub(crate) fn alerts(call: &Call) -> Result<List<AlertEntry>, Problem> {
    let hosts = call.hosts()?;
    let hosts: HashSet<&str> = hosts.iter().map(|host| host.id.as_str()).collect();
    let Some(log) = &call.app.options.alert_log else {
        return Ok(List { items: Vec::new() });
    };
    let unreadable =
        |_| Problem::NoHistory("cannot read the alerts; see the board's log".to_owned());
    let AlertHistoryDocument { messages, .. } = log().map_err(unreadable)?;
    let workspace = call.workspace().as_str();
    let sees_names = call.caller().sees_names();
    let entry = |row: DeliveryRow| {
        if row.workspace.as_deref() != Some(workspace) {
            return None;
        }
        let is_shown = sees_names || row.user.is_none();
        Some(AlertEntry {
            id: row.id,
            at: row.at,
            alert: row.alert,
            when: row.when,
            host: row.host_id.filter(|host| hosts.contains(host.as_str())),
            host_name: row.host,
            user: row.user.filter(|_| is_shown),
            to: row.to,
            status: row.status,
            attempts: row.attempts,
            error: row.error.filter(|_| is_shown),
            title: is_shown.then_some(row.title),
        })
    };
    let items = messages.into_iter().filter_map(entry).take(PAGE_ITEMS);
    Ok(List {
        items: items.collect(),
    })
}
