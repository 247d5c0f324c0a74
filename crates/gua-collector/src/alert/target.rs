//! Delivery of one message to one target, within a time limit. URLs and passwords are read from their files for each message
//! and appear in no error.

mod mail;
mod terminal;

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use gua_model::alert::{Shape, Target};
use gua_model::chain::chain;
use gua_probe::clock;
use gua_render::alert::{AlertDocument, AlertMessage};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::thread::clear_ambient_capability_set;
use serde::Serialize;
use ureq::http::Request;
use ureq::http::header::CONTENT_TYPE;

use crate::board::{ConnectOptions, fetch};

/// Maximum size of a file with a secret.
const MAX_SECRET: u64 = 8 << 10;
/// Maximum time of a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Time between two checks of a running command.
const COMMAND_PAUSE: Duration = Duration::from_millis(20);

/// Why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendError {
    /// A sentence without secrets.
    pub(super) message: String,
    /// Whether the same message may be accepted later.
    pub(super) is_retryable: bool,
}

impl SendError {
    /// An error that repeating the message does not change.
    fn last(message: String) -> Self {
        Self {
            message,
            is_retryable: false,
        }
    }
}

impl From<String> for SendError {
    fn from(message: String) -> Self {
        Self {
            message,
            is_retryable: true,
        }
    }
}

/// Sends a message and waits until the target acknowledges it.
pub(super) fn send(
    target: &Target,
    message: &AlertMessage,
    options: &ConnectOptions,
) -> Result<(), SendError> {
    match target {
        Target::Webhook { shape, url_file } => {
            let url = secret(url_file)?;
            post(&url, *shape, message, options)
        }
        Target::Command(words) => Ok(run(words, message)?),
        Target::Email(email) => mail::send(email, message, options),
        Target::Write => terminal::write(message),
    }
}

/// Returns why a target cannot be used, as far as that can be seen without a message.
pub(super) fn problem(target: &Target) -> Option<String> {
    match target {
        Target::Webhook { url_file, .. } => {
            let url = secret(url_file).and_then(|url| parsed(&url).map(drop));
            url.err()
        }
        Target::Command(words) => {
            let program = Path::new(words.first()?);
            let found = program.metadata();
            let is_program = found.is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0);
            match is_program {
                true => trusted(program).err(),
                false => Some(format!("`{}` is not a program", program.display())),
            }
        }
        Target::Email(email) => {
            let (_, file) = email.account.as_ref()?;
            secret(file).err()
        }
        Target::Write => None,
    }
}

/// Rejects a file that users other than root and the daemon's own can change.
fn trusted(path: &Path) -> Result<(), String> {
    gua_files::safe_for_this_user(path).map_err(|error| error.to_string())
}

/// Reads a file with a secret, which is one line. A file that everyone can read holds no secret.
fn secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    trusted(path)?;
    if path.metadata().is_ok_and(|facts| facts.mode() & 0o004 != 0) {
        return Err(format!(
            "`{shown}` is readable by every user; run `chmod o-r {shown}` and replace the secret"
        ));
    }
    let bytes = gua_files::read_regular(path, MAX_SECRET)
        .map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not text"))?;
    match text.trim() {
        "" => Err(format!("`{shown}` is empty")),
        text => Ok(text.to_owned()),
    }
}

fn parsed(url: &str) -> Result<ureq::http::Uri, String> {
    let uri: Option<ureq::http::Uri> = url.parse().ok();
    let is_web = |uri: &ureq::http::Uri| {
        uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"))
    };
    uri.filter(is_web)
        .ok_or_else(|| "the file with the URL does not contain one URL".to_owned())
}

fn post(
    url: &str,
    shape: Shape,
    message: &AlertMessage,
    options: &ConnectOptions,
) -> Result<(), SendError> {
    let uri = parsed(url)?;
    let request = Request::builder().method("POST").uri(uri);
    let request = match shape {
        Shape::Ntfy => request
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .header("Title", header_text(&message.title)),
        _ => request.header(CONTENT_TYPE, "application/json"),
    };
    let request = request
        .body(body(shape, message))
        .map_err(|error| error.to_string())?;
    let answer = fetch(options, request)?;
    let status = answer.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    // The body may repeat the requested URL, which is the secret.
    Err(SendError {
        message: format!("the destination answered with HTTP status {status}"),
        is_retryable: !matches!(status, 400 | 413 | 422),
    })
}

/// The body of a webhook. Slack's and Mattermost's incoming webhooks take an object with `text`. The workflows of Teams take a
/// message with an adaptive card. ntfy takes the text itself.
fn body(shape: Shape, message: &AlertMessage) -> Vec<u8> {
    let AlertMessage { title, text, .. } = message;
    match shape {
        Shape::Ntfy => text.clone().into_bytes(),
        Shape::Json => encoded(&AlertDocument::new(message)),
        Shape::Slack => encoded(&ChatMessage {
            text: &slack_text(text),
        }),
        Shape::Mattermost => encoded(&ChatMessage { text }),
        Shape::Teams => {
            let rest = text.strip_prefix(title.as_str()).unwrap_or(text);
            // A single line break is a blank in the text of a card.
            let rest = rest.trim().replace('\n', "\n\n");
            encoded(&TeamsMessage::new([
                TextBlock::new(title, "bolder"),
                TextBlock::new(&rest, "default"),
            ]))
        }
    }
}

/// Message of an incoming webhook of Slack or Mattermost.
#[derive(Serialize)]
struct ChatMessage<'a> {
    text: &'a str,
}

/// Message of a workflow of Teams, with one adaptive card (<https://adaptivecards.io/explorer>).
#[derive(Serialize)]
struct TeamsMessage<'a> {
    attachments: [Attachment<'a>; 1],
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attachment<'a> {
    content: Card<'a>,
    content_type: &'static str,
    content_url: Option<&'static str>,
}

#[derive(Serialize)]
struct Card<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    body: [TextBlock<'a>; 2],
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    text: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    weight: &'static str,
    wrap: bool,
}

impl<'a> TeamsMessage<'a> {
    fn new(body: [TextBlock<'a>; 2]) -> Self {
        Self {
            attachments: [Attachment {
                content: Card {
                    schema: "http://adaptivecards.io/schemas/adaptive-card.json",
                    body,
                    kind: "AdaptiveCard",
                    version: "1.2",
                },
                content_type: "application/vnd.microsoft.card.adaptive",
                content_url: None,
            }],
            kind: "message",
        }
    }
}

impl<'a> TextBlock<'a> {
    fn new(text: &'a str, weight: &'static str) -> Self {
        Self {
            text,
            kind: "TextBlock",
            weight,
            wrap: true,
        }
    }
}

fn encoded(document: &impl Serialize) -> Vec<u8> {
    let document = serde_json::to_vec(document);
    document.expect("a document has string keys and finite numbers")
}

/// Slack reads `&`, `<` and `>` as marks: `<!channel>` would notify everyone.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Formats text as the value of a header. Text that is not printable ASCII, or that contains `=?`, becomes encoded words of at most
/// 75 characters (RFC 2047), which ntfy decodes (<https://docs.ntfy.sh/publish/#message-title>).
fn header_text(text: &str) -> String {
    const START: &str = "=?UTF-8?Q?";
    const END: &str = "?=";
    const MAX_WORD: usize = 75;
    if text.chars().all(|letter| matches!(letter, ' '..='~')) && !text.contains("=?") {
        return text.to_owned();
    }
    let mut words = vec![START.to_owned()];
    for letter in text.chars() {
        let encoded = match letter {
            ' ' => "_".to_owned(),
            '!'..='~' if !"=?_".contains(letter) => letter.to_string(),
            // A character must not be split across two words.
            _ => {
                let bytes = letter.to_string().into_bytes().into_iter();
                bytes.map(|byte| format!("={byte:02X}")).collect()
            }
        };
        match words.last_mut() {
            Some(word) if word.len() + encoded.len() + END.len() <= MAX_WORD => {
                word.push_str(&encoded);
            }
            _ => words.push(format!("{START}{encoded}")),
        }
    }
    // A decoder drops the space between two encoded words.
    words.join(&format!("{END} ")) + END
}

/// Runs a command with the document on its standard input.
fn run(words: &[String], message: &AlertMessage) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let path = Path::new(program);
    trusted(path)?;
    let mut command = Command::new(path);
    command.args(arguments);
    let run = move || {
        // The service has capabilities that its programs would inherit (capabilities(7)). The set belongs to the thread.
        match clear_ambient_capability_set() {
            // A kernel before 4.3 has no such set.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(format!("cannot give up capabilities: {error}")),
        }
        feed(
            &mut command,
            encoded(&AlertDocument::new(message)),
            COMMAND_LIMIT,
        )
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, run);
        let thread = thread.map_err(|error| error.to_string())?;
        thread.join().expect("running a command does not panic")
    })
}

/// Runs a command with these bytes on its standard input, in a process group of its own. The group is killed when the command has
/// ended or reaches the time limit.
pub(crate) fn feed(command: &mut Command, bytes: Vec<u8>, limit: Duration) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // On a thread, because a program that does not read could block. A program may ignore its input.
        let writer = thread::Builder::new().spawn(move || drop(input.write_all(&bytes)));
        writer.map_err(|error| error.to_string())?;
    }
    wait(&mut child, limit)
}

fn wait(child: &mut Child, limit: Duration) -> Result<(), String> {
    let until = clock::monotonic().saturating_add(limit);
    let pid = Pid::from_child(child);
    // Not reaped yet, so that the number of the group is not given to another process before the group is killed.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let is_late = loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) if clock::monotonic() >= until => break true,
            Ok(None) => thread::sleep(COMMAND_PAUSE),
            Ok(Some(_)) | Err(_) => break false,
        }
    };
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait().map_err(|error| chain(&error))?;
    match (is_late, status.success()) {
        (true, _) => {
            let seconds = limit.as_secs();
            Err(format!("the command did not end within {seconds} s"))
        }
        (false, true) => Ok(()),
        (false, false) => Err(format!("the command failed: {status}")),
    }
}

#[cfg(test)]
mod tests;
