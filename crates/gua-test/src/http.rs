//! HTTP requests as a test server reads them.

use std::io::BufRead;

use serde::{Deserialize, Serialize};

/// One request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Method, path and query.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    #[serde(with = "as_text")]
    pub body: Vec<u8>,
}

impl Request {
    /// Reads a request with its body; `None` if the client hung up before its end.
    pub fn receive(reader: &mut impl BufRead) -> Option<Self> {
        let mut next = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned())
        };
        let line = next()?.strip_suffix(" HTTP/1.1")?.to_owned();
        let mut headers = Vec::new();
        while let Some((name, value)) = next()?.split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut request = Self {
            line,
            headers,
            body: Vec::new(),
        };
        let length = request
            .header("content-length")
            .map_or(0, |text| text.parse().unwrap());
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A board's response to an enrolment claim.
pub const CLAIM_ANSWER: &str = r#"{"hostId":"h1","displayName":"lab 1","agentToken":"gua_agent_secret","tokenPrefix":"gua_agent_se"}"#;

/// A body as text, so that recordings can be read. Only recordings of text are needed.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, ser::Error as _};

    pub(super) fn serialize<S: Serializer>(body: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(body).map_err(S::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(String::deserialize(from)?.into_bytes())
    }
}
