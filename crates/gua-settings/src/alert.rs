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
use serde_json::json;
use toml::de::DeValue;
use toml_edit::{Array, Value};

use crate::array::{Field, Mistakes, Row};
use crate::group::Members;
use crate::kind::{FilePath, Home, Kind as _, Parsed, Raw, kinds, length, whole};
use crate::name::shown;
use crate::quota::quoted;
use crate::table::AlertFields;

impl Row for Alert {
    type Fields = AlertFields;
    const NOUN: &'static str = "alert";

    fn of_table(fields: &AlertFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        if fields.when.is_none() {
            let message = "alert: when is missing; write when = [\"idle-held\"]";
            mistakes.push(start, message);
        }
        if fields.to.is_none() {
            mistakes.push(start, "alert: to is missing; write to = \"slack\"");
        }
        let by = value(&fields.by).unwrap_or_default();
        check_sender(fields, by, mistakes);
        let Some(target) = target(fields, start, mistakes) else {
            return Vec::new();
        };
        vec![Alert {
            name: value(&fields.name).unwrap_or_else(|| target.kind().to_owned()),
            by,
            when: value(&fields.when).unwrap_or_default(),
            target,
            longer_than: value(&fields.longer_than),
            percent: value(&fields.percent).unwrap_or(NEAR_PERCENT),
            cool_down: value(&fields.cool_down).unwrap_or(COOL_DOWN),
            quiet: value(&fields.quiet),
            exempt: value(&fields.exempt).unwrap_or_default(),
            text: value(&fields.text),
        }]
    }

    /// The name also keeps the state of an alert, so that it must be unique.
    fn is_same(&self, other: &Alert) -> bool {
        self.name == other.name
    }

    fn to_table(&self) -> Vec<(&'static str, Value)> {
        let list = |words: &[String]| words.iter().map(String::as_str).collect::<Array>().into();
        let when = self.when.iter().map(|when| when.as_str());
        let target: Vec<(&str, Value)> = match &self.target {
            Target::Webhook { url_file, .. } => {
                vec![("url_file", url_file.to_string_lossy().as_ref().into())]
            }
            Target::Command(words) => vec![("command", list(words))],
            Target::Email(email) => {
                let (host, port) = &email.smtp;
                let mut pairs: Vec<(&str, Value)> = vec![
                    ("smtp", format!("{host}:{port}").into()),
                    ("from", (&email.from).into()),
                    ("recipient", (&email.recipient).into()),
                ];
                if let Some((user, file)) = &email.account {
                    pairs.push(("smtp_user", user.into()));
                    pairs.push(("password_file", file.to_string_lossy().as_ref().into()));
                }
                pairs
            }
            Target::Write => Vec::new(),
        };
        let optional = [
            (self.by != Sender::default()).then(|| ("by", self.by.as_str().into())),
            self.longer_than
                .map(|length| ("longer_than", duration::written(length).into())),
            (self.percent != NEAR_PERCENT).then(|| ("percent", i64::from(self.percent).into())),
            (self.cool_down != COOL_DOWN)
                .then(|| ("cool_down", duration::written(self.cool_down).into())),
            self.quiet.map(|quiet| ("quiet", quiet.to_string().into())),
            (!self.exempt.is_empty()).then(|| ("exempt", list(&self.exempt))),
            self.text
                .as_ref()
                .map(|text| ("text", text.as_str().into())),
        ];
        let first = [
            ("name", (&self.name).into()),
            ("when", when.collect::<Array>().into()),
            ("to", self.target.kind().into()),
        ];
        let first = first.into_iter().chain(target);
        first.chain(optional.into_iter().flatten()).collect()
    }

    fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        let when: Vec<&str> = self.when.iter().map(|when| when.as_str()).collect();
        let pairs = [
            ("name", json!(self.name)),
            ("by", json!(self.by.as_str())),
            ("when", json!(when)),
            ("to", json!(self.target.kind())),
            (
                "longer_than",
                json!(self.longer_than.map(duration::written)),
            ),
            ("percent", json!(self.percent)),
            ("cool_down", json!(duration::written(self.cool_down))),
            ("quiet", json!(self.quiet.map(|quiet| quiet.to_string()))),
            ("exempt", json!(self.exempt)),
            ("text", json!(self.text.as_ref().map(Template::as_str))),
        ];
        let pairs = pairs.into_iter();
        let mut map: serde_json::Map<String, serde_json::Value> =
            pairs.map(|(key, value)| (key.to_owned(), value)).collect();
        for (key, value) in target_json(&self.target) {
            map.insert(key.to_owned(), value);
        }
        map
    }
}

/// The keys of a target; those of other kinds are null.
fn target_json(target: &Target) -> [(&'static str, serde_json::Value); 7] {
    let url_file = match target {
        Target::Webhook { url_file, .. } => Some(FilePath::json(url_file)),
        _ => None,
    };
    let command = match target {
        Target::Command(words) => Some(words),
        _ => None,
    };
    let email = match target {
        Target::Email(email) => Some(email),
        _ => None,
    };
    let account = email.and_then(|email| email.account.as_ref());
    let smtp = email.map(|email| format!("{}:{}", email.smtp.0, email.smtp.1));
    [
        ("url_file", json!(url_file)),
        ("command", json!(command)),
        ("smtp", json!(smtp)),
        ("from", json!(email.map(|email| &email.from))),
        ("recipient", json!(email.map(|email| &email.recipient))),
        ("smtp_user", json!(account.map(|(user, _)| user))),
        (
            "password_file",
            json!(account.map(|(_, file)| FilePath::json(file))),
        ),
    ]
}

fn value<T: Clone>(field: &Option<Field<T>>) -> Option<T> {
    field.as_ref()?.value.clone()
}

/// Rejects conditions that the sender cannot find, and targets that it cannot reach.
fn check_sender(fields: &AlertFields, by: Sender, mistakes: &mut Mistakes) {
    let conditions = fields.when.iter();
    for (at, when) in conditions.flat_map(|field| {
        let conditions = field.value.iter().flatten();
        conditions.map(|when| (field.at, *when))
    }) {
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
    let to = fields.to.as_ref();
    if let Some(to) = to.filter(|to| by == Sender::Board && to.value == Some(TargetKind::Write)) {
        let why = "the people of other hosts have no terminals on the board's host";
        let message = format!("alert: to = \"write\" does not work with by = \"board\": {why}");
        mistakes.push(to.at, message);
    }
}

/// The target of a table. A key that belongs to another kind of target is a mistake, because it would have no effect.
fn target(fields: &AlertFields, start: usize, mistakes: &mut Mistakes) -> Option<Target> {
    let kind = value(&fields.to)?;
    let keys = [
        ("url_file", (fields.url_file.as_ref().map(|field| field.at))),
        ("command", (fields.command.as_ref().map(|field| field.at))),
        ("smtp", (fields.smtp.as_ref().map(|field| field.at))),
        ("from", (fields.from.as_ref().map(|field| field.at))),
        (
            "recipient",
            (fields.recipient.as_ref().map(|field| field.at)),
        ),
        (
            "smtp_user",
            (fields.smtp_user.as_ref().map(|field| field.at)),
        ),
        (
            "password_file",
            (fields.password_file.as_ref().map(|field| field.at)),
        ),
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
                let message = format!("alert: {key} is missing; write {key} = {example}");
                mistakes.push(start, message);
            }
            _ => {}
        }
    }
    Some(match kind {
        TargetKind::Webhook(shape) => Target::Webhook {
            shape,
            url_file: value(&fields.url_file)?,
        },
        TargetKind::Command => Target::Command(value(&fields.command)?),
        TargetKind::Email => Target::Email(Email {
            smtp: value(&fields.smtp)?,
            from: value(&fields.from)?,
            recipient: value(&fields.recipient)?,
            account: match (value(&fields.smtp_user), value(&fields.password_file)) {
                (Some(user), Some(file)) => Some((user, file)),
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
        |raw, _| conditions(raw), |when| json!(when.iter().map(|when| when.as_str()).collect::<Vec<_>>());
    /// Program that finds the conditions and sends the messages.
    SenderName: Sender, "daemon or board",
        |raw, _| quoted(raw, parse_sender), |by| by.as_str().into();
    /// Destination of an alert.
    TargetName: TargetKind, "slack, teams, mattermost, ntfy, webhook, command, email or write",
        |raw, _| quoted(raw, parse_target), |kind| kind.word().into();
    /// A program with its arguments.
    CommandWords: Vec<String>, "a list such as [\"/usr/local/bin/notify\", \"--gpu\"], which begins with an absolute path",
        |raw, _| command(raw), |words| json!(words);
    /// Minimum length of a condition.
    ConditionLength: Duration, "a duration from 1s to 31d, such as 2h",
        |raw, _| length(raw, Duration::from_secs(1)..=31 * DAY), |length| duration::written(*length).into();
    /// Time between two messages.
    CoolDown: Duration, "a duration from 1m to 31d, such as 1d",
        |raw, _| length(raw, Duration::from_secs(60)..=31 * DAY), |length| duration::written(*length).into();
    /// Share of a quota.
    NearPercent: u32, "a whole number from 1 to 100",
        |raw, _| whole(raw, 1..=100).and_then(|number| u32::try_from(number).map_err(|_| None)), |value| (*value).into();
    /// Hours without messages.
    QuietText: QuietHours, "hours such as \"22:00-07:00\"",
        |raw, _| quoted(raw, |text| text.parse().map_err(|()| unexpected(QuietText::WHAT, text))), |quiet| quiet.to_string().into();
    /// Text of messages.
    TemplateText: Template, "a text with placeholders such as {user}",
        |raw, _| quoted(raw, parse_template), |template| template.as_str().into();
    /// Patterns of exempt people.
    Exempt: Vec<String>, "a list of names such as [\"ada\", \"svc-*\"]",
        |raw, home| Members::parse(raw, home).map_err(|_| None), |names| json!(names);
    /// Mail server.
    SmtpServer: (String, u16), "a server and its port such as \"mail.example.com:587\"",
        |raw, _| quoted(raw, parse_server), |(host, port)| format!("{host}:{port}").into();
    /// Mail address, or its pattern.
    MailAddress: String, "an address such as \"gua@example.com\"",
        |raw, _| quoted(raw, parse_address), |address| address.clone().into();
    /// File with a secret.
    SecretFile: PathBuf, "a path", |raw, home| FilePath::parse(raw, home).map_err(Some), FilePath::json;
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn unexpected(what: &str, text: &str) -> String {
    format!("expected {what}, found `{}`", shown(text))
}

fn words(raw: Raw<'_>) -> Parsed<Vec<String>> {
    let Raw::Toml(DeValue::Array(list)) = raw else {
        return Err(None);
    };
    let word = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(None),
    };
    let words: Vec<String> = list.iter().map(word).collect::<Parsed<_>>()?;
    if words.is_empty() {
        Err(None)
    } else {
        Ok(words)
    }
}

fn conditions(raw: Raw<'_>) -> Parsed<Vec<When>> {
    let named = |word: String| {
        let unknown = || Some(unexpected(Conditions::WHAT, &word));
        When::named(&word).ok_or_else(unknown)
    };
    words(raw)?.into_iter().map(named).collect()
}

fn command(raw: Raw<'_>) -> Parsed<Vec<String>> {
    let words = words(raw)?;
    match words[0].starts_with('/') {
        true => Ok(words),
        false => Err(Some(unexpected(CommandWords::WHAT, &words[0]))),
    }
}

fn parse_sender(text: &str) -> Result<Sender, String> {
    let found = Sender::ALL.into_iter().find(|by| by.as_str() == text);
    found.ok_or_else(|| unexpected(SenderName::WHAT, text))
}

fn parse_target(text: &str) -> Result<TargetKind, String> {
    let webhooks = Shape::ALL.map(TargetKind::Webhook).into_iter();
    let others = [TargetKind::Command, TargetKind::Email, TargetKind::Write];
    let mut all = webhooks.chain(others);
    let found = all.find(|kind| kind.word() == text);
    found.ok_or_else(|| unexpected(TargetName::WHAT, text))
}

fn parse_server(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':');
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let is_name = |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
    match parts {
        Some((host, port @ 1..)) if is_name(host) => Ok((host.to_owned(), port)),
        _ => Err(unexpected(SmtpServer::WHAT, text)),
    }
}

fn parse_address(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|letter| letter.is_ascii_graphic());
    match text.split_once('@') {
        Some((name, domain)) if is_plain && !name.is_empty() && !domain.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err(unexpected(MailAddress::WHAT, text)),
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
        let text = "[[alert]]\nname = \"lab\"\nwhen = [\"idle-held\", \"quota-near\"]\nto = \"slack\"\nurl_file = \"/etc/gua/slack.url\"\nlonger_than = \"3h\"\npercent = 90\ncool_down = \"12h\"\nquiet = \"22:00-07:00\"\nexempt = [\"svc-*\"]\ntext = \"{summary}\"\n";
        let (alerts, mistakes) = read(text);
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(alerts[0].when, [When::IdleHeld, When::QuotaNear]);
        let written = alerts[0].to_table().into_iter();
        let written: String = written
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        assert_eq!(format!("[[alert]]\n{written}"), text);
        assert_eq!(alerts[0].json()["cool_down"], "12h");
        assert_eq!(alerts[0].json()["smtp"], json!(null));
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
                &format!("{slack}by = \"board\"").replace("lost", "quota-over"),
                "quota-over does not work with by = \"board\": quotas are counted on the hosts",
            ),
            (
                &format!("{slack}by = \"board\"").replace("lost", "nudge"),
                "asks on the host alone",
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
