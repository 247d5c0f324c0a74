//! A mail server on loopback that records mails (RFC 5321), without TLS.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A received mail.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// Argument of AUTH PLAIN.
    pub auth: Option<String>,
    /// Header and body.
    pub text: String,
}

/// A recording mail server; its thread ends with the test process.
#[derive(Debug)]
pub struct SmtpServer {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    mails: Vec<Mail>,
    /// Answer to AUTH or, if it begins with 55, to RCPT.
    refusal: Option<String>,
}

impl SmtpServer {
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Mutex<Shared>>::default();
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&ours);
                thread::spawn(move || converse(stream, &shared));
            }
        });
        Self { port, shared }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        lock(&self.shared).mails.clone()
    }

    /// Refuses every password with this answer from now on; with an answer that begins with 55, every recipient.
    pub fn refuse(&self, answer: &str) {
        lock(&self.shared).refusal = Some(answer.to_owned());
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn converse(mut stream: TcpStream, shared: &Mutex<Shared>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut say = |answer: &str| write!(stream, "{answer}\r\n").ok();
    say("220 test ESMTP")?;
    let mut mail = Mail::default();
    loop {
        let line = lines.next()?.ok()?;
        let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        let address = || rest.split_once(':').map_or("", |(_, address)| address);
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => say("250-test\r\n250 AUTH PLAIN")?,
            "AUTH" => {
                mail.auth = rest.split_once(' ').map(|(_, word)| word.to_owned());
                let refusal = lock(shared).refusal.clone();
                let refusal = refusal.filter(|answer| !answer.starts_with("55"));
                say(refusal.as_deref().unwrap_or("235 2.7.0 ok"))?;
            }
            "MAIL" => {
                mail.from = address().split(' ').next().unwrap_or_default().to_owned();
                say("250 ok")?;
            }
            "RCPT" => {
                mail.to.push(address().to_owned());
                let refusal = lock(shared).refusal.clone();
                let refusal = refusal.filter(|answer| answer.starts_with("55"));
                say(refusal.as_deref().unwrap_or("250 ok"))?;
            }
            "DATA" => {
                say("354 go on")?;
                loop {
                    match lines.next()?.ok()?.as_str() {
                        "." => break,
                        line => mail.text.push_str(&format!("{line}\n")),
                    }
                }
                lock(shared).mails.push(std::mem::take(&mut mail));
                say("250 queued")?;
            }
            "QUIT" => return say("221 bye"),
            _ => say("502 unknown")?,
        }
    }
}
