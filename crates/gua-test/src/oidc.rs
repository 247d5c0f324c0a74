//! An OpenID Connect provider for tests, on loopback: discovery, keys, authorization and tokens, signed with Ed25519. It
//! approves every log-in as the person that the test sets, and makes the mistakes of an attacker on request.

use std::collections::HashMap;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use data_encoding::BASE64URL_NOPAD;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::http::Request;

/// Name and secret of the client at the provider.
pub const CLIENT: &str = "gua-board";
pub const CLIENT_SECRET: &str = "the secret of the client";

/// Defect of the ID tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    Nonce,
    Audience,
    Issuer,
    Signature,
    Expired,
    /// A key identifier that the provider does not have.
    UnknownKey,
    /// No signature, which the header admits.
    Unsigned,
    /// Signed with the public key as if it were a shared secret.
    SharedSecret,
}

/// A running provider.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    key: Mutex<Key>,
    state: Mutex<State>,
}

/// The key that signs, with its identifier.
struct Key {
    pair: KeyPair,
    id: String,
}

impl Key {
    fn generate(number: usize) -> Self {
        Self {
            pair: KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(),
            id: number.to_string(),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Shared")
    }
}

struct State {
    /// Subject and preferred name of the person who logs in.
    person: (String, String),
    /// Further claims of ID tokens.
    more: Value,
    mistake: Mistake,
    /// Authorizations by code. A code is removed when it is used.
    codes: HashMap<String, HashMap<String, String>>,
    issued: usize,
    /// Number of requests for the keys.
    key_reads: usize,
}

impl Provider {
    /// Listens until the test's process ends.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            key: Mutex::new(Key::generate(1)),
            state: Mutex::new(State {
                person: ("subject-1".to_owned(), "ada".to_owned()),
                more: json!({}),
                mistake: Mistake::None,
                codes: HashMap::new(),
                issued: 0,
                key_reads: 0,
            }),
        });
        let (kept, issuer) = (Arc::clone(&shared), format!("http://{address}"));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let mut stream = BufReader::new(socket);
                let Some(request) = Request::receive(&mut stream) else {
                    continue;
                };
                let (status, header, body) = kept.answer(&issuer, &request);
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{header}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { address, shared }
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets who logs in from now on.
    pub fn person(&self, subject: &str, name: &str) {
        let person = (subject.to_owned(), name.to_owned());
        self.shared.state.lock().unwrap().person = person;
    }

    /// Sets further claims of the ID tokens from now on.
    pub fn claims(&self, more: Value) {
        self.shared.state.lock().unwrap().more = more;
    }

    /// Replaces the key that signs, under a new identifier.
    pub fn rotates_its_key(&self) {
        let mut key = self.shared.key.lock().unwrap();
        let number: usize = key.id.parse().unwrap();
        *key = Key::generate(number + 1);
    }

    /// Returns how often the keys were requested.
    pub fn key_reads(&self) -> usize {
        self.shared.state.lock().unwrap().key_reads
    }

    /// Sets what is wrong with ID tokens from now on.
    pub fn makes(&self, mistake: Mistake) {
        self.shared.state.lock().unwrap().mistake = mistake;
    }
}

impl Shared {
    fn answer(&self, issuer: &str, request: &Request) -> (&'static str, String, String) {
        let ok = |body: Value| {
            let kind = "Content-Type: application/json".to_owned();
            ("200 OK", kind, body.to_string())
        };
        let path = request.line.split(['?', ' ']).nth(1).unwrap_or_default();
        match path {
            "/.well-known/openid-configuration" => ok(json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "jwks_uri": format!("{issuer}/keys"),
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "scopes_supported": ["openid", "profile", "email", "groups"],
                "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
            })),
            "/keys" => {
                self.state.lock().unwrap().key_reads += 1;
                let key = self.key.lock().unwrap();
                ok(json!({"keys": [{
                    "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": key.id,
                    "x": BASE64URL_NOPAD.encode(key.pair.der_bytes()),
                }]}))
            }
            "/authorize" => self.authorize(&request.line),
            "/token" => match self.token(issuer, request) {
                Some(token) => ok(token),
                None => {
                    let kind = "Content-Type: application/json".to_owned();
                    let body = json!({"error": "invalid_grant"}).to_string();
                    ("400 Bad Request", kind, body)
                }
            },
            _ => ("404 Not Found", "X-Test: 1".to_owned(), String::new()),
        }
    }

    /// Approves the log-in and sends the browser back with a code.
    fn authorize(&self, line: &str) -> (&'static str, String, String) {
        let query = line.split_once('?').map_or("", |(_, query)| query);
        let asked = form(query);
        let mut state = self.state.lock().unwrap();
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        let back = format!(
            "Location: {}?code={code}&state={}",
            asked["redirect_uri"], asked["state"]
        );
        state.codes.insert(code, asked);
        ("302 Found", back, String::new())
    }

    /// Exchanges a code once, for the client that asked and has the verifier of its challenge.
    fn token(&self, issuer: &str, request: &Request) -> Option<Value> {
        let basic = data_encoding::BASE64
            .encode(format!("{CLIENT}:{}", CLIENT_SECRET.replace(' ', "+")).as_bytes());
        if request.header("authorization") != Some(&format!("Basic {basic}")) {
            return None;
        }
        let sent = form(request.text());
        let mut state = self.state.lock().unwrap();
        let asked = state.codes.remove(&sent["code"])?;
        let challenge = Sha256::digest(sent["code_verifier"].as_bytes());
        let is_same = asked["code_challenge"] == BASE64URL_NOPAD.encode(&challenge)
            && asked["code_challenge_method"] == "S256"
            && asked["redirect_uri"] == sent["redirect_uri"]
            && asked["client_id"] == CLIENT;
        if !is_same {
            return None;
        }
        let (subject, name) = state.person.clone();
        let mistake = state.mistake;
        let is = |wrong| mistake == wrong;
        let mut claims = json!({
            "iss": if is(Mistake::Issuer) { "https://evil.example.com" } else { issuer },
            "aud": if is(Mistake::Audience) { "another-client" } else { CLIENT },
            "nonce": if is(Mistake::Nonce) { "stale" } else { &asked["nonce"] },
            "exp": if is(Mistake::Expired) { 1_000_000_000 } else { 4_000_000_000_u64 },
            "iat": 1_000_000_000, "sub": subject, "preferred_username": name,
        });
        let more = state.more.as_object().cloned().unwrap_or_default();
        claims.as_object_mut()?.extend(more);
        let id_token = self.signed(&claims, mistake);
        Some(json!({"access_token": "access", "token_type": "Bearer", "id_token": id_token}))
    }

    fn signed(&self, claims: &Value, mistake: Mistake) -> String {
        let algorithm = match mistake {
            Mistake::Unsigned => "none",
            Mistake::SharedSecret => "HS256",
            _ => "EdDSA",
        };
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let key = self.key.lock().unwrap();
        let id = match mistake {
            Mistake::UnknownKey => "unknown",
            _ => &key.id,
        };
        let head = json!({"alg": algorithm, "kid": id});
        let text = format!("{}.{}", part(&head), part(claims));
        let signature = match mistake {
            Mistake::Unsigned => Vec::new(),
            Mistake::SharedSecret => Sha256::digest(text.as_bytes()).to_vec(),
            Mistake::Signature => {
                let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
                other.sign(text.as_bytes()).unwrap()
            }
            _ => key.pair.sign(text.as_bytes()).unwrap(),
        };
        format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

/// Fields of a query or form.
fn form(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let digits = std::str::from_utf8(&digits).unwrap_or("00");
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
