//! Messages on the socket: the version of the protocol and a length in four bytes each, then that many bytes of postcard.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use gua_query::QueryError;
use gua_query::protocol::VERSION;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::{Reply, Request};

/// Maximum size of a question. The largest contain a live sample of the whole host.
pub(super) const MAX_QUESTION: usize = 8 << 20;
/// Maximum size of an answer.
pub(super) const MAX_ANSWER: usize = 64 << 20;

/// A question, and the history that it is about.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Query {
    /// `None` for whichever history the service has.
    pub(super) db: Option<PathBuf>,
    pub(super) request: Request,
}

/// Result of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    Answered(Reply),
    Failed(QueryError),
    /// The user asks too many questions at once.
    Busy,
    /// A limit of the service, in words.
    Refused(String),
}

/// Reads one message of at most `longest` bytes.
pub(crate) fn read<T: DeserializeOwned>(input: &mut impl Read, longest: usize) -> io::Result<T> {
    let number = |input: &mut dyn Read| {
        let mut bytes = [0; 4];
        input.read_exact(&mut bytes)?;
        Ok::<_, io::Error>(u32::from_le_bytes(bytes))
    };
    let version = number(input)?;
    if version != VERSION {
        return Err(invalid(format!(
            "the other side has version {version} of the protocol, and this gua has {VERSION}"
        )));
    }
    let length = usize::try_from(number(input)?).unwrap_or(usize::MAX);
    if length > longest {
        return Err(invalid(format!("a message of {length} bytes is too long")));
    }
    // Memory grows with what arrives, not with what was announced.
    let mut bytes = Vec::new();
    let limit = u64::try_from(length).unwrap_or(u64::MAX);
    if input.take(limit).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|error| invalid(error.to_string()))
}

/// Error for a time zone without a name. Everything else in a message can be serialized.
const NAMELESS_ZONE: &str = "the service needs the name of the time zone, which the file of the time zone does not give; set TZ, such as TZ=Europe/Berlin";

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Encodes one message of at most `longest` bytes.
pub(super) fn encode(content: &impl Serialize, longest: usize) -> io::Result<Vec<u8>> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    let head = bytes.len();
    let mut bytes = postcard::to_extend(content, bytes).map_err(|_| invalid(NAMELESS_ZONE))?;
    let length = bytes.len() - head;
    let number = u32::try_from(length).ok().filter(|_| length <= longest);
    let number = number.ok_or_else(|| invalid("the message is too long"))?;
    bytes[head - 4..head].copy_from_slice(&number.to_le_bytes());
    Ok(bytes)
}

/// Writes one message of at most `longest` bytes.
pub(crate) fn write(
    output: &mut impl Write,
    content: &impl Serialize,
    longest: usize,
) -> io::Result<()> {
    output.write_all(&encode(content, longest)?)
}
