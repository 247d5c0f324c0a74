//! Alerts: conditions that are worth a message, its text, and when it is sent.
//!
//! A condition holds or does not hold at a moment; [`finding`] has the functions that decide this from a sample, from
//! standings under quotas and from gaps. [`Alert::due`] then decides which findings become messages now: none for exempt
//! people, none in quiet hours, and none until the cool-down is over. A finding that is held back is not queued. It is
//! found again later if it is still true, so that nobody receives a message about the past.

pub mod finding;
mod quiet_hours;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::finding::{BoardHost, Finding};
pub use self::quiet_hours::QuietHours;
use crate::owner::is_match;
use crate::text::sanitize;

crate::words! {
    /// A condition of an alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum When {
        /// A person holds a GPU without using it.
        IdleHeld = "idle-held",
        /// A share of a quota is used.
        QuotaNear = "quota-near",
        /// More than a quota is used.
        QuotaOver = "quota-over",
        /// A GPU has a fault.
        Unhealthy = "unhealthy",
        /// A GPU has disappeared.
        Lost = "lost",
        /// The GPUs were not observed.
        Gap = "gap",
        /// The agent of a host has sent nothing to its board.
        Silent = "silent",
        /// A person was asked whether they still need idle GPUs (`gua nudge`).
        Nudge = "nudge",
        /// A GPU is free for the caller of `gua available --notify`.
        Free = "free",
    }
}

impl When {
    /// Returns why a sender cannot find the condition; `None` if it can.
    pub fn obstacle(self, by: Sender) -> Option<&'static str> {
        match (by, self) {
            (Sender::Daemon, When::Silent) => {
                Some("only a board notices that the agent of a host sends nothing")
            }
            (Sender::Board, When::Nudge) => Some("`gua nudge` asks on the host alone"),
            (Sender::Board, When::Free) => Some("`gua available --notify` sends it on the host"),
            _ => None,
        }
    }
}

crate::words! {
    /// Program that finds the conditions of an alert and sends its messages.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Sender {
        /// The daemon of a host, about that host.
        #[default]
        Daemon = "daemon",
        /// A board, about all its hosts.
        Board = "board",
    }
}

crate::words! {
    /// Format of the body of a webhook.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shape {
        /// The document `gua.alert.v1`.
        Json = "webhook",
        Slack = "slack",
        Mattermost = "mattermost",
        Teams = "teams",
        Ntfy = "ntfy",
    }
}

/// Destination of the messages of an alert. Secrets are in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Webhook {
        shape: Shape,
        /// File with the URL, which is a secret.
        url_file: PathBuf,
    },
    /// Program with its arguments. It receives the document on its standard input.
    Command(Vec<String>),
    Email(Email),
    /// Terminals of the person.
    Write,
}

/// Mail server and addresses of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// Name and port of the server.
    pub smtp: (String, u16),
    pub from: String,
    /// Address of the recipient; `{user}` is the name of the person. Messages about nobody go to the sender.
    pub recipient: String,
    /// Name of the account, and the file with its password.
    pub account: Option<(String, PathBuf)>,
}

impl Email {
    /// Returns the address that receives a message about a person.
    pub fn recipient_of(&self, person: Option<&str>) -> String {
        match person {
            Some(person) => self.recipient.replace("{user}", person),
            None if self.recipient.contains("{user}") => self.from.clone(),
            None => self.recipient.clone(),
        }
    }
}

impl Target {
    /// Returns the kind of the target in settings and documents.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::Webhook { shape, .. } => shape.as_str(),
            Target::Command(_) => "command",
            Target::Email(_) => "email",
            Target::Write => "write",
        }
    }

    /// Returns the file that its messages need: the program, or the secret. Another user must not be able to change it.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Target::Webhook { url_file, .. } => Some(url_file),
            Target::Command(words) => words.first().map(Path::new),
            Target::Email(email) => email.account.as_ref().map(|(_, file)| file.as_path()),
            Target::Write => None,
        }
    }

    /// Whether messages about different people go to different places, so that one that fails must not delay another.
    pub fn is_personal(&self) -> bool {
        matches!(self, Target::Email(_) | Target::Write)
    }
}

/// Names that a template can contain in braces.
pub const PLACEHOLDERS: [&str; 6] = ["summary", "details", "answer", "user", "host", "alert"];

/// Text of a message with placeholders such as `{user}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// Checks a template. The error is the first unknown placeholder.
    ///
    /// # Errors
    /// If a pair of braces contains anything but one of [`PLACEHOLDERS`].
    pub fn new(text: &str) -> Result<Self, String> {
        for part in text.split('{').skip(1) {
            let name = part.split_once('}').map_or(part, |(name, _)| name);
            let is_closed = part.contains('}');
            if !is_closed || !PLACEHOLDERS.contains(&name) {
                return Err(name.to_owned());
            }
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Fills in the placeholders. The values are not searched for placeholders.
    fn filled(&self, value: impl Fn(&str) -> String) -> String {
        let mut parts = self.0.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            if let Some((name, after)) = part.split_once('}') {
                text.push_str(&value(name));
                text.push_str(after);
            }
        }
        text
    }
}

/// One `[[alert]]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Unique among the alerts.
    pub name: String,
    pub by: Sender,
    pub when: Vec<When>,
    pub target: Target,
    /// Minimum length of idle time, gaps and silence; `None` for the default of the condition.
    pub longer_than: Option<Duration>,
    /// Share of a quota, in percent, from which on it is near.
    pub percent: u32,
    /// Minimum time between two messages about the same person, GPU or limit.
    pub cool_down: Duration,
    pub quiet: Option<QuietHours>,
    /// Patterns of people who are not alerted about.
    pub exempt: Vec<String>,
    pub title: Option<Template>,
    pub text: Option<Template>,
}

/// Default minimum of idle time.
pub const LONG_IDLE: Duration = Duration::from_secs(2 * 3600);
/// Default minimum length of a gap.
pub const LONG_GAP: Duration = Duration::from_secs(10 * 60);
/// Default share of a quota from which on it is near, in percent.
pub const NEAR_PERCENT: u32 = 80;
/// Default cool-down, and the least one of nudges: a person is nudged at most once a day.
pub const COOL_DOWN: Duration = Duration::from_secs(24 * 3600);

/// Time at which the last message about each subject was queued, by [`Alert::key`].
pub type LastSent = BTreeMap<String, Timestamp>;

/// Title and text of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub title: String,
    pub text: String,
}

impl Alert {
    /// Returns the minimum length of idle time.
    pub fn long_idle(&self) -> Duration {
        self.longer_than.unwrap_or(LONG_IDLE)
    }

    /// Returns the minimum length of idle time from which on a person may be nudged.
    pub fn long_for_nudge(&self) -> Duration {
        let default = crate::idle::LONG.unsigned_abs();
        self.longer_than.unwrap_or(default)
    }

    /// Returns the minimum length of a gap.
    pub fn long_gap(&self) -> Duration {
        self.longer_than.unwrap_or(LONG_GAP)
    }

    /// Returns the time for which a board collects silent agents before it reports them together. Hosts that lose their network
    /// at the same moment miss their reports at different times, but within one interval. An agent is silent after
    /// three intervals.
    pub fn collection_time(&self) -> Duration {
        let longest = Duration::from_secs(60);
        self.longer_than
            .map_or(longest, |time| longest.min(time / 3))
    }

    /// Returns the key under which the cool-down of a finding is kept.
    pub fn key(&self, finding: &Finding) -> String {
        let (name, when, subject) = (&self.name, finding.when.as_str(), &finding.subject);
        match &finding.host {
            Some(BoardHost { id: Some(id), .. }) => format!("{name} {when} {id} {subject}"),
            _ => format!("{name} {when} {subject}"),
        }
    }

    /// Returns the findings about which a message is due, one for each subject.
    pub fn due(
        &self,
        findings: Vec<Finding>,
        last_sent: &LastSent,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Vec<Finding> {
        let is_quiet = |quiet: &QuietHours| quiet.contains(now.to_zoned(zone.clone()).time());
        if self.quiet.as_ref().is_some_and(is_quiet) {
            return Vec::new();
        }
        let mut due = findings;
        let mut subjects = BTreeSet::new();
        due.retain(|finding| {
            let is_exempt = |name: &String| self.exempt.iter().any(|one| is_match(one, name));
            self.when.contains(&finding.when)
                && !finding.person.as_ref().is_some_and(is_exempt)
                && !self.is_cooling_down(finding, last_sent, now)
                && subjects.insert(self.key(finding))
        });
        due
    }

    fn is_cooling_down(&self, finding: &Finding, last_sent: &LastSent, now: Timestamp) -> bool {
        let cool_down = match finding.when {
            When::Nudge => self.cool_down.max(COOL_DOWN),
            _ => self.cool_down,
        };
        let cool_down = SignedDuration::try_from(cool_down).unwrap_or(SignedDuration::MAX);
        let last = last_sent.get(&self.key(finding));
        last.is_some_and(|last| {
            // A gap that a daemon found has its start as its subject, and is reported once. A clock that was set back must not
            // silence an alert.
            (finding.when == When::Gap && finding.host.is_none())
                || (SignedDuration::ZERO..cool_down).contains(&now.duration_since(*last))
        })
    }

    /// Returns the message about a finding, on this host unless the finding names another. Names come from users, so no value can
    /// contain a line break or a terminal control; only the template and the list of details have several lines.
    pub fn message(&self, finding: &Finding, this_host: &str) -> Message {
        let host = sanitize(&finding.host_name(this_host));
        let summary = format!("{host}: {}", sanitize(&finding.summary));
        let details = finding.details.iter();
        let details = details.map(|line| format!("- {}", sanitize(line)));
        let details = details.collect::<Vec<_>>().join("\n");
        let value = |name: &str| match name {
            "summary" => summary.clone(),
            "details" => details.clone(),
            "answer" => finding.answer.as_deref().map_or_else(String::new, sanitize),
            "user" => finding.person.as_deref().map_or_else(String::new, sanitize),
            "host" => host.clone(),
            _ => sanitize(&self.name),
        };
        let text = match &self.text {
            Some(template) => template.filled(value),
            None => {
                let parts = [summary.clone(), value("details"), value("answer")];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join("\n")
            }
        };
        let title = match &self.title {
            // The subject of a mail and the title of a notification are one line.
            Some(template) => sanitize(&template.filled(value)),
            None => summary.clone(),
        };
        Message { title, text }
    }
}

#[cfg(test)]
mod tests;
