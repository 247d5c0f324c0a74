//! A mail server on loopback that records mails (RFC 5321), without TLS, with STARTTLS (RFC 3207) or with TLS from the first byte
//! (RFC 8314).

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::tls::{Duplex, TlsServer};

/// A received mail.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// Header and body.
    pub text: String,
    pub is_encrypted: bool,
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
    passwords: Vec<String>,
    /// Answer to AUTH or, if it begins with 55, to RCPT.
    refusal: Option<String>,
}

#[derive(Clone, Debug)]
enum Encryption {
    None,
    StartTls(TlsServer),
    FirstByte(TlsServer),
}

impl SmtpServer {
    pub fn start() -> Self {
        Self::listen(Encryption::None)
    }

    /// Starts a server with STARTTLS and a certificate for `host`, which is written to `ca_file`.
    pub fn with_starttls(host: &str, ca_file: &Path) -> Self {
        Self::listen(Encryption::StartTls(TlsServer::new(host, ca_file)))
    }

    /// Starts a server with TLS from the first byte and a certificate for `host`, which is written to `ca_file`.
    pub fn with_tls(host: &str, ca_file: &Path) -> Self {
        Self::listen(Encryption::FirstByte(TlsServer::new(host, ca_file)))
    }

    fn listen(encryption: Encryption) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Mutex<Shared>>::default();
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (shared, encryption) = (Arc::clone(&ours), encryption.clone());
                thread::spawn(move || serve(socket, &shared, &encryption));
            }
        });
        Self { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn mails(&self) -> Vec<Mail> {
        lock(&self.shared).mails.clone()
    }

    /// The arguments of AUTH PLAIN that clients sent.
    pub fn passwords(&self) -> Vec<String> {
        lock(&self.shared).passwords.clone()
    }

    /// Refuses every password with this answer from now on; with an answer that begins with 55, every recipient.
    pub fn refuse(&self, answer: &str) {
        lock(&self.shared).refusal = Some(answer.to_owned());
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: TcpStream, shared: &Mutex<Shared>, encryption: &Encryption) -> Option<()> {
    const EXTENSIONS: &str = "250-test\r\n250 AUTH PLAIN";
    match encryption {
        Encryption::None => converse(greet(socket)?, shared, EXTENSIONS, false).map(drop),
        Encryption::StartTls(tls) => {
            let extensions = "250-test\r\n250-STARTTLS\r\n250 AUTH PLAIN";
            let socket = converse(greet(socket)?, shared, extensions, false)?;
            converse(tls.accept(socket)?, shared, EXTENSIONS, true).map(drop)
        }
        Encryption::FirstByte(tls) => {
            let stream = greet(tls.accept(socket)?)?;
            converse(stream, shared, EXTENSIONS, true).map(drop)
        }
    }
}

fn greet<S: Duplex>(mut stream: S) -> Option<S> {
    write!(stream, "220 test ESMTP\r\n").ok()?;
    Some(stream)
}

/// Holds a conversation, with `extensions` as the answer to EHLO. Returns the stream if the client wants to encrypt it.
fn converse<S: Duplex>(
    stream: S,
    shared: &Mutex<Shared>,
    extensions: &str,
    is_encrypted: bool,
) -> Option<S> {
    let mut stream = BufReader::new(stream);
    let new_mail = || Mail {
        is_encrypted,
        ..Mail::default()
    };
    let mut mail = new_mail();
    loop {
        let line = read_line(&mut stream)?;
        let mut say = |answer: &str| write!(stream.get_mut(), "{answer}\r\n").ok();
        let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        let address = || rest.split_once(':').map_or("", |(_, address)| address);
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => say(extensions)?,
            "STARTTLS" => {
                say("220 go on")?;
                return Some(stream.into_inner());
            }
            "AUTH" => {
                let password = rest.split_once(' ').map_or("", |(_, word)| word);
                lock(shared).passwords.push(password.to_owned());
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
                    match read_line(&mut stream)?.as_str() {
                        "." => break,
                        line => mail.text.push_str(&format!("{line}\n")),
                    }
                }
                let sent = std::mem::replace(&mut mail, new_mail());
                lock(shared).mails.push(sent);
                write!(stream.get_mut(), "250 queued\r\n").ok()?;
            }
            "QUIT" => return say("221 bye").and(None),
            _ => say("502 unknown")?,
        }
    }
}

fn read_line(stream: &mut BufReader<impl Duplex>) -> Option<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).ok()?;
    (length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
