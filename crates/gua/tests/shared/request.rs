//! An HTTP request as a board for tests reads it.

use std::io::BufRead;

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method, path and query.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads one with its body; `None` where the client hung up before.
    pub(crate) fn receive(reader: &mut impl BufRead) -> Option<Self> {
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

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// What a board answers to a claim.
pub(crate) const CLAIM_ANSWER: &str = r#"{"hostId":"h1","displayName":"lab 1","agentToken":"gua_agent_secret","tokenPrefix":"gua_agent_se"}"#;
