//! Alerts as documents: the message that a webhook or a command receives, the configured alerts, and past deliveries.

use gua_model::alert::{Alert, Sender, When};
use gua_model::duration;
use gua_model::table::Table;
use gua_model::text::sanitize;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{documents, local, rows};
use crate::table::table;

/// Format name of [`AlertDocument`].
pub const ALERT: &str = "gua.alert.v1";
/// Format name of [`AlertsDocument`].
pub const ALERTS: &str = "gua.alerts.v1";
/// Format name of [`AlertHistoryDocument`].
pub const ALERT_HISTORY: &str = "gua.alert-history.v1";

/// One message of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertMessage {
    /// Unique on the host. A message that is delivered again after a crash has the same one.
    pub id: String,
    /// Time at which the condition was found, in UTC.
    pub at: Timestamp,
    /// Name of the alert in the configuration.
    pub alert: String,
    /// The condition, such as `idle-held`; `test` for `gua alert test`.
    pub when: String,
    pub host: String,
    /// Id of the host on the board that sends the message; null in a message about several hosts, or of the host itself.
    #[serde(default)]
    pub host_id: Option<String>,
    /// Id of the workspace of the hosts on that board; null in a message of the host itself.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The person that the message is about, if it is about one.
    pub user: Option<String>,
    pub title: String,
    pub text: String,
    /// The evidence, one line each.
    pub details: Vec<String>,
}

/// Message of an alert, as a webhook receives it in a request and a command on its standard input. Keys may be added
/// under the same version; none changes its meaning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AlertDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    message: &'a AlertMessage,
}

impl<'a> AlertDocument<'a> {
    pub fn new(message: &'a AlertMessage) -> Self {
        Self {
            schema: ALERT,
            message,
        }
    }
}

rows! {
    /// A configured alert.
    pub struct AlertRow from (alert: &Alert, source: String, last_sent: Option<Timestamp>, problem: Option<String>) {
        name: String as "alert" = alert.name.clone(),
        /// The conditions, with commas between them.
        when: String = alert.when.iter().map(|when| when.as_str()).collect::<Vec<_>>().join(","),
        /// Kind of destination.
        to: &'static str = alert.target.kind(),
        /// Minimum length of idle time, gaps and silence; null for the defaults.
        longer_than: Option<String> = alert.longer_than.map(duration::written),
        cool_down: String = duration::written(alert.cool_down),
        quiet: Option<String> = alert.quiet.map(|quiet| quiet.to_string()),
        /// Patterns of exempt people, with commas between them.
        exempt: String = alert.exempt.join(","),
        /// Time at which it last queued a message.
        last_sent: Option<Timestamp> = last_sent,
        /// Why its messages cannot be sent, or why the last one was not delivered.
        problem: Option<String> = problem,
        /// Place at which it is configured.
        source: String = source,
        /// The program that sends its messages: `daemon` or `board`.
        by: &'static str = alert.by.as_str(),
    }

    /// A message and its delivery.
    pub struct DeliveryRow from (message: &AlertMessage, to: String, status: DeliveryStatus, at: Timestamp, attempts: u32) {
        /// Time at which it was delivered or given up; for a waiting message, the time at which the condition was
        /// found.
        at: Timestamp = at,
        alert: String = message.alert.clone(),
        when: String = message.when.clone(),
        user: Option<String> = message.user.clone(),
        /// Kind of destination.
        to: String = to,
        /// `sent`, `waiting` or `failed`.
        status: &'static str = status.parts().0,
        attempts: u32 = attempts,
        error: Option<String> = status.parts().1.map(str::to_owned),
        title: String as "message" = message.title.clone(),
        id: String = message.id.clone(),
        host: String = message.host.clone(),
        /// Id of the host on the board that sends the message; null in a message about several hosts, or of the host itself.
        host_id: Option<String> = message.host_id.clone(),
        /// Id of the workspace of the hosts on that board; null in a message of the host itself.
        workspace: Option<String> = message.workspace.clone(),
    }
}

/// Delivery status of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    Sent,
    /// Not delivered yet, with the error of the last attempt.
    Waiting(Option<String>),
    Failed(String),
}

impl DeliveryStatus {
    /// Returns its name in documents, and the error if there is one.
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            DeliveryStatus::Sent => ("sent", None),
            DeliveryStatus::Waiting(error) => ("waiting", error.as_deref()),
            DeliveryStatus::Failed(error) => ("failed", Some(error)),
        }
    }
}

documents! {
    /// Output of `gua alert list --json`. Keys may be added under the same version; none changes its meaning.
    pub struct AlertsDocument from (rows: Vec<AlertRow>) {
        pub schema: &'static str = ALERTS,
        pub alerts: Vec<AlertRow> = rows,
    }

    /// Output of `gua alert history --json`, the latest message first. Keys may be added under the same version; none
    /// changes its meaning.
    pub struct AlertHistoryDocument from (rows: Vec<DeliveryRow>) {
        pub schema: &'static str = ALERT_HISTORY,
        pub messages: Vec<DeliveryRow> = rows,
    }
}

impl AlertRow {
    /// Returns why its messages cannot be sent, with its name.
    pub fn problem(&self) -> Option<String> {
        let (name, problem) = (sanitize(&self.name), sanitize(self.problem.as_deref()?));
        Some(format!("alert {name}: {problem}"))
    }
}

impl AlertsDocument {
    /// Returns all columns as a table.
    pub fn table(&self) -> Table {
        Table::of(AlertRow::COLUMNS, &self.alerts)
    }

    /// Returns the text for a terminal. All alerts must be of the sender `by`.
    pub fn text(&self, by: Sender, zone: &TimeZone) -> String {
        if self.alerts.is_empty() {
            let conditions = When::ALL.into_iter();
            let conditions = conditions.filter(|when| when.obstacle(by).is_none());
            let conditions = conditions.map(When::as_str).collect::<Vec<_>>().join(", ");
            let of_board = match by {
                Sender::Daemon => "",
                Sender::Board => " with by = \"board\"",
            };
            return format!(
                "no alerts are configured{of_board}\nconditions: {conditions} (docs/alerts.md)\n"
            );
        }
        let table = table!(row in &self.alerts =>
            "alert" => row.name.clone(),
            "when" => row.when.clone(),
            "to" => row.to,
            "cool-down" => row.cool_down.clone(),
            "last sent" => row.last_sent.map(|at| local(at, zone, "%Y-%m-%d %H:%M")),
            "" => row.problem.clone().unwrap_or_default(),
        );
        table.text(0)
    }
}

impl AlertHistoryDocument {
    /// Returns all columns as a table.
    pub fn table(&self) -> Table {
        Table::of(DeliveryRow::COLUMNS, &self.messages)
    }

    /// Returns the text for a terminal.
    pub fn text(&self, zone: &TimeZone) -> String {
        if self.messages.is_empty() {
            return "no messages yet\n".to_owned();
        }
        let status = |row: &DeliveryRow| match &row.error {
            Some(error) => format!("{}: {}", row.status, sanitize(error)),
            None => row.status.to_owned(),
        };
        let table = table!(row in &self.messages =>
            "time" => local(row.at, zone, "%Y-%m-%d %H:%M"),
            "alert" => row.alert.clone(),
            "to" => row.to.clone(),
            "status" => status(row),
            "message" => row.title.clone(),
        );
        table.text(0)
    }
}
