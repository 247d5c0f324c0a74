//! Alerts, `[[alert]]`: conditions and the destination of the messages about them.
//!
//! ```toml
//! [[alert]]
//! when = ["idle-held", "quota-over"]
//! to = "slack"
//! url_file = "/etc/gua/slack.url"   # the URL is a secret, so it is in a file of its own
//! longer_than = "2h"                # of idle time, gaps and silence
//! cool_down = "1d"                  # at most one message a day about the same person
//! quiet = "22:00-07:00"
//! exempt = ["svc-*"]
//! ```

use std::path::PathBuf;
use std::time::Duration;

use gua_model::alert::{
    Alert, COOL_DOWN, Email, NEAR_PERCENT, PLACEHOLDERS, QuietHours, Sender, Shape, Target,
    Template, When,
};
use gua_model::duration;

use crate::array::{Layer, Listed, Mistakes, Pair, Row};
use crate::group::Members;
use crate::kind::{
    FilePath, Home, Kind as _, Parsed, Raw, Written as _, expected, kinds, length, list, texts,
    whole,
};
use crate::name::shown;
use crate::table::AlertFields;
use crate::{Position, Problem, Source};

impl Row for Alert {
    type Fields = AlertFields;
    const NOUN: &'static str = "alert";
    const IF_TWICE: &'static str = "; if both are meant, give one a `name`";

    fn of_table(fields: &AlertFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let needed = [
            ("when", fields.when.at, "[\"idle-held\"]"),
            ("to", fields.to.at, "\"slack\""),
        ];
        mistakes.require::<AlertFields>(start, &needed);
        let by = fields.by.value.unwrap_or_default();
        check_sender(fields, by, mistakes);
        let Some(target) = target(fields, start, mistakes) else {
            return Vec::new();
        };
        let name = fields.name.value.clone();
        vec![Alert {
            name: name.unwrap_or_else(|| target.kind().to_owned()),
            by,
            when: fields.when.value.clone().unwrap_or_default(),
            target,
            longer_than: fields.longer_than.value,
            percent: fields.percent.value.unwrap_or(NEAR_PERCENT),
            cool_down: fields.cool_down.value.unwrap_or(COOL_DOWN),
            quiet: fields.quiet.value,
            exempt: fields.exempt.value.clone().unwrap_or_default(),
            title: fields.title.value.clone(),
            text: fields.text.value.clone(),
        }]
    }

    /// The name also keeps the state of an alert, so that it must be unique.
    fn is_same(&self, other: &Alert) -> bool {
        self.name == other.name
    }

    fn pairs(&self) -> Vec<Pair> {
        let when: Vec<&str> = self.when.iter().map(|when| when.as_str()).collect();
        let (url_file, command, email) = match &self.target {
            Target::Webhook { url_file, .. } => (Some(url_file), None, None),
            Target::Command(words) => (None, Some(words.clone()), None),
            Target::Email(email) => (None, None, Some(email)),
            Target::Write => (None, None, None),
        };
        let smtp = email.map(|email| format!("{}:{}", email.smtp.0, email.smtp.1));
        let account = email.and_then(|email| email.account.as_ref());
        let is_by_daemon = self.by == Sender::default();
        vec![
            Pair::new("name", self.name.as_str()),
            Pair::new("when", when),
            Pair::new("to", self.target.kind()),
            Pair::new("url_file", url_file.map(FilePath::json)),
            Pair::new("command", command),
            Pair::new("smtp", smtp),
            Pair::new("from", email.map(|email| email.from.as_str())),
            Pair::new("recipient", email.map(|email| email.recipient.as_str())),
            Pair::new("smtp_user", account.map(|(user, _)| user.as_str())),
            Pair::new(
                "password_file",
                account.map(|(_, file)| FilePath::json(file)),
            ),
            Pair::new("by", self.by.as_str()).unless(is_by_daemon),
            Pair::new("longer_than", self.longer_than.map(duration::written)),
            Pair::new("percent", self.percent).unless(self.percent == NEAR_PERCENT),
            Pair::new("cool_down", duration::written(self.cool_down))
                .unless(self.cool_down == COOL_DOWN),
            Pair::new("quiet", self.quiet.map(|quiet| quiet.to_string())),
            Pair::new("exempt", self.exempt.clone()).unless(self.exempt.is_empty()),
            Pair::new("title", self.title.as_ref().map(Template::as_str)),
            Pair::new("text", self.text.as_ref().map(Template::as_str)),
        ]
    }
}

/// Rejects a condition in the host's file that only a user's command can meet.
pub(crate) fn of_wrong_file(alert: &Listed<Alert>) -> Option<Problem> {
    let is_wrong = alert.layer == Layer::Host && alert.value.when.contains(&When::Free);
    let Source::File { path, line } = &alert.source else {
        return None;
    };
    let position = Position {
        line: *line,
        column: 1,
    };
    let message = "alert: `free` works only in a user's own ~/.gua/config.toml, because `gua available --notify` sends it";
    is_wrong.then(|| Problem::of_file(path, Some(position), message))
}

/// Rejects conditions that the sender cannot find, and targets that it cannot reach.
fn check_sender(fields: &AlertFields, by: Sender, mistakes: &mut Mistakes) {
    let conditions = fields.when.value.iter().flatten();
    for (when, at) in conditions.filter_map(|when| Some((when, fields.when.at?))) {
        if let Some(why) = when.obstacle(by) {
            let (when, by) = (when.as_str(), by.as_str());
            let hint = match by {
                "daemon" => "; write by = \"board\"",
                _ => "",
            };
            let message = format!("alert: {when} does not work with by = \"{by}\": {why}{hint}");
            mistakes.push(at, message);
        }
    }
    if let (Sender::Board, Some(TargetKind::Write), Some(at)) = (by, fields.to.value, fields.to.at)
    {
        let why = "the people of other hosts have no terminals on the board's host";
        let message = format!("alert: to = \"write\" does not work with by = \"board\": {why}");
        mistakes.push(at, message);
    }
}

/// The target of a table. A key that belongs to another kind of target is a mistake, because it would have no effect.
fn target(fields: &AlertFields, start: usize, mistakes: &mut Mistakes) -> Option<Target> {
    let kind = fields.to.value?;
    let keys = [
        ("url_file", fields.url_file.at),
        ("command", fields.command.at),
        ("smtp", fields.smtp.at),
        ("from", fields.from.at),
        ("recipient", fields.recipient.at),
        ("smtp_user", fields.smtp_user.at),
        ("password_file", fields.password_file.at),
    ];
    let (needed, optional): (&[(&str, &str)], &[&str]) = match kind {
        TargetKind::Webhook(_) => (&[("url_file", "\"/etc/gua/alert.url\"")], &[]),
        TargetKind::Command => (&[("command", "[\"/usr/local/bin/notify\"]")], &[]),
        TargetKind::Email => (
            &[
                ("smtp", "\"mail.example.com:587\""),
                ("from", "\"gua@example.com\""),
                ("recipient", "\"{user}@example.com\""),
            ],
            &["smtp_user", "password_file"],
        ),
        TargetKind::Write => (&[], &[]),
    };
    for (key, at) in keys {
        let needed = needed.iter().find(|(needed, _)| *needed == key);
        match (at, needed) {
            (Some(at), None) if !optional.contains(&key) => {
                let message = format!("alert: {key} does not belong to to = \"{}\"", kind.word());
                mistakes.push(at, message);
            }
            (None, Some((_, example))) => {
                mistakes.require::<AlertFields>(start, &[(key, None, example)]);
            }
            _ => {}
        }
    }
    Some(match kind {
        TargetKind::Webhook(shape) => Target::Webhook {
            shape,
            url_file: fields.url_file.value.clone()?,
        },
        TargetKind::Command => Target::Command(fields.command.value.clone()?),
        TargetKind::Email => Target::Email(Email {
            smtp: fields.smtp.value.clone()?,
            from: fields.from.value.clone()?,
            recipient: fields.recipient.value.clone()?,
            account: match (&fields.smtp_user.value, &fields.password_file.value) {
                (Some(user), Some(file)) => Some((user.clone(), file.clone())),
                (None, None) => None,
                _ => {
                    let message = "alert: smtp_user and password_file belong together";
                    mistakes.push(start, message);
                    None
                }
            },
        }),
        TargetKind::Write => Target::Write,
    })
}

/// The value of `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    Webhook(Shape),
    Command,
    Email,
    Write,
}

impl TargetKind {
    fn all() -> impl Iterator<Item = Self> {
        let webhooks = Shape::ALL.map(TargetKind::Webhook).into_iter();
        webhooks.chain([TargetKind::Command, TargetKind::Email, TargetKind::Write])
    }

    fn word(self) -> &'static str {
        match self {
            TargetKind::Webhook(shape) => shape.as_str(),
            TargetKind::Command => "command",
            TargetKind::Email => "email",
            TargetKind::Write => "write",
        }
    }
}

kinds! {
    /// Conditions of an alert.
    Conditions: Vec<When>, "a list of idle-held, quota-near, quota-over, unhealthy, lost, gap, silent, nudge and free",
        |raw, _| conditions(raw);
    /// A program with its arguments.
    CommandWords: Vec<String>, "a list such as [\"/usr/local/bin/notify\", \"--gpu\"], which begins with an absolute path",
        |raw, _| command(raw);
    /// Minimum length of a condition.
    ConditionLength: Duration, "a duration from 1s to 31d, such as 2h", |raw, _| length(raw, Duration::from_secs(1)..=31 * DAY);
    /// Time between two messages.
    CoolDown: Duration, "a duration from 1m to 31d, such as 1d", |raw, _| length(raw, Duration::from_secs(60)..=31 * DAY);
    /// Share of a quota.
    NearPercent: u32, "a whole number from 1 to 100",
        |raw, _| whole(raw, 1..=100).and_then(|number| u32::try_from(number).map_err(|_| None));
    /// Patterns of exempt people.
    Exempt: Vec<String>, "a list of names such as [\"ada\", \"svc-*\"]", |raw, home| Members::parse(raw, home).map_err(|_| None);
    /// File with a secret.
    SecretFile: PathBuf, "a path", |raw, home| FilePath::parse(raw, home).map_err(Some);
}

texts! {
    /// Program that finds the conditions and sends the messages.
    SenderName: Sender, "daemon or board", |text| Sender::from_word(text).ok_or(None);
    /// Destination of an alert.
    TargetName: TargetKind, "slack, teams, mattermost, ntfy, webhook, command, email or write",
        |text| TargetKind::all().find(|kind| kind.word() == text).ok_or(None);
    /// Hours without messages.
    QuietText: QuietHours, "hours such as \"22:00-07:00\"", |text| text.parse().map_err(|()| None);
    /// Title or text of messages.
    TemplateText: Template, "a text with placeholders such as {user}", |text| parse_template(text).map_err(Some);
    /// Mail server.
    SmtpServer: (String, u16), "a server and its port such as \"mail.example.com:587\"", |text| parse_server(text).ok_or(None);
    /// Mail address, or its pattern.
    MailAddress: String, "an address such as \"gua@example.com\"", parse_address;
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn conditions(raw: Raw<'_>) -> Parsed<Vec<When>> {
    let named = |word: String| {
        let unknown = || Some(expected(Conditions::WHAT, &word));
        When::from_word(&word).ok_or_else(unknown)
    };
    list(raw)?.into_iter().map(named).collect()
}

fn command(raw: Raw<'_>) -> Parsed<Vec<String>> {
    let words = list(raw)?;
    match words[0].starts_with('/') {
        true => Ok(words),
        false => Err(Some(expected(CommandWords::WHAT, &words[0]))),
    }
}

fn parse_server(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| (host.to_owned(), port))
}

fn parse_address(text: &str) -> Parsed<String> {
    let is_plain = text.chars().all(|letter| letter.is_ascii_graphic());
    match text.split_once('@') {
        Some((name, domain)) if is_plain && !name.is_empty() && !domain.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err(None),
    }
}

fn parse_template(text: &str) -> Result<Template, String> {
    Template::new(text).map_err(|name| {
        let name = shown(&name);
        let known = PLACEHOLDERS.join("}, {");
        format!("unknown placeholder `{{{name}}}`; there are {{{known}}}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array;

    /// The alerts of a file, and its mistakes.
    fn read(text: &str) -> (Vec<Alert>, Vec<String>) {
        let document = toml::de::DeTable::parse(text).unwrap();
        let mut mistakes = Mistakes::default();
        let value = document.get_ref().get("alert").unwrap();
        let rows = array::rows::<Alert>(value, &Home(None), &mut mistakes).unwrap();
        let alerts = rows.into_iter().map(|(alert, _)| alert).collect();
        let messages = mistakes.0.into_iter().map(|(_, message)| message);
        (alerts, messages.collect())
    }

    #[test]
    fn an_alert_is_written_as_it_was_read() {
        let text = "[[alert]]\nname = \"lab\"\nwhen = [\"idle-held\", \"quota-near\"]\nto = \"slack\"\nurl_file = \"/etc/gua/slack.url\"\nlonger_than = \"3h\"\npercent = 90\ncool_down = \"12h\"\nquiet = \"22:00-07:00\"\nexempt = [\"svc-*\"]\ntitle = \"{user}\"\ntext = \"{summary}\"\n";
        let (alerts, mistakes) = read(text);
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(alerts[0].when, [When::IdleHeld, When::QuotaNear]);
        let written = alerts[0].to_table().into_iter();
        let written: String = written
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        assert_eq!(format!("[[alert]]\n{written}"), text);
        assert_eq!(alerts[0].json()["cool_down"], "12h");
        assert_eq!(alerts[0].json()["smtp"], serde_json::Value::Null);
    }

    #[test]
    fn an_alert_of_a_board_is_written_as_it_was_read() {
        let text = "[[alert]]\nname = \"slack\"\nwhen = [\"silent\", \"idle-held\"]\nto = \"slack\"\nurl_file = \"/x\"\nby = \"board\"\n";
        let (alerts, mistakes) = read(text);
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(alerts[0].by, Sender::Board);
        let written = alerts[0].to_table().into_iter();
        let written: String = written
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        assert_eq!(format!("[[alert]]\n{written}"), text);
    }

    #[test]
    fn mail_is_written_as_it_was_read() {
        let text = "[[alert]]\nname = \"mail\"\nwhen = [\"nudge\"]\nto = \"email\"\nsmtp = \"mail.example.com:587\"\nfrom = \"gua@example.com\"\nrecipient = \"{user}@example.com\"\nsmtp_user = \"gua\"\npassword_file = \"/etc/gua/mail.password\"\n";
        let (alerts, mistakes) = read(text);
        assert_eq!(mistakes, Vec::<String>::new());
        let written = alerts[0].to_table().into_iter();
        let written: String = written
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        assert_eq!(format!("[[alert]]\n{written}"), text);
        assert_eq!(alerts[0].json()["smtp_user"], "gua");
    }

    #[test]
    fn an_alert_has_defaults() {
        let (alerts, mistakes) = read(
            "[[alert]]\nwhen = [\"lost\"]\nto = \"command\"\ncommand = [\"/bin/x\", \"-y\"]\n",
        );
        assert_eq!(mistakes, Vec::<String>::new());
        let alert = &alerts[0];
        assert_eq!(alert.name, "command");
        assert_eq!(
            alert.target,
            Target::Command(vec!["/bin/x".into(), "-y".into()])
        );
        assert_eq!((alert.percent, alert.cool_down), (80, DAY));
    }

    #[test]
    fn a_mistake_is_reported_and_its_alert_left_out() {
        let slack = "when = [\"lost\"]\nto = \"slack\"\nurl_file = \"/x\"\n";
        let mail = "when = [\"lost\"]\nto = \"email\"\nsmtp = \"mail:587\"\nfrom = \"gua@example.com\"\nrecipient = \"{user}@example.com\"\n";
        for (text, expected) in [
            ("to = \"slack\"\nurl_file = \"/x\"", "when is missing"),
            ("when = [\"lost\"]", "to is missing"),
            ("when = [\"lost\"]\nto = \"slack\"", "url_file is missing"),
            ("when = [\"lost\"]\nto = \"command\"", "command is missing"),
            ("when = [\"lost\"]\nto = \"irc\"", "expected slack, teams"),
            ("when = [\"lost\"]\nto = \"email\"", "smtp is missing"),
            (&format!("{mail}smtp_user = \"gua\""), "belong together"),
            (&mail.replace(":587", ""), "a server and its port"),
            (&mail.replace("gua@", "gua "), "an address such as"),
            (
                "when = [\"lost\"]\nto = \"write\"\nurl_file = \"/x\"",
                "does not belong to",
            ),
            (
                "when = [\"idle\"]\nto = \"slack\"\nurl_file = \"/x\"",
                "found `idle`",
            ),
            (
                "when = []\nto = \"slack\"\nurl_file = \"/x\"",
                "a list of idle-held",
            ),
            (
                "when = [\"lost\"]\nto = \"command\"\ncommand = [\"x\"]",
                "an absolute path",
            ),
            (&format!("{slack}command = [\"/x\"]"), "does not belong to"),
            (&format!("{slack}cool_down = \"1s\""), "from 1m to 31d"),
            (&format!("{slack}quiet = \"late\""), "22:00-07:00"),
            (
                &format!("{slack}text = \"{{gpu}}\""),
                "unknown placeholder `{gpu}`",
            ),
            (&format!("{slack}exempt = \"ada\""), "a list of names"),
            (&format!("{slack}url = \"https://x\""), "unknown key `url`"),
            (&format!("{slack}by = \"me\""), "expected daemon or board"),
            (
                "when = [\"silent\"]\nto = \"slack\"\nurl_file = \"/x\"",
                "sends nothing; write by = \"board\"",
            ),
            (
                &format!("{slack}by = \"board\"").replace("lost", "nudge"),
                "nudge does not work with by = \"board\": `gua nudge` asks on the host alone",
            ),
            (
                "when = [\"silent\"]\nto = \"write\"\nby = \"board\"",
                "have no terminals on the board's host",
            ),
            (&format!("{slack}[[alert]]\n{slack}"), "set twice"),
        ] {
            let (alerts, mistakes) = read(&format!("[[alert]]\n{text}\n"));
            assert!(alerts.len() < 2, "{text}");
            let found = mistakes.iter().any(|one| one.contains(expected));
            assert!(found, "{text}: {mistakes:?}");
        }
    }
}
