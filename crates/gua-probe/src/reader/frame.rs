//! The format on the pipe: a length in four bytes, then that many bytes of postcard; an answer has the number of its
//! request in between. Both ends are the same binary, so the format has no versions; an impossible length or content
//! ends the connection.

use std::io::{self, Read, Write};
use std::time::Duration;

use gua_model::Sample;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fault::DriverFault;
use crate::probe::ProbeOptions;

/// Requests of the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// First request, sent once: where to read.
    Open(ProbeOptions),
    /// One sample, now.
    Sample { id: RequestId },
    /// A schedule: a sample at `first` on the monotonic clock and one every `interval` from there, each once the one
    /// before was taken. It ends with the next request, or if an answer is not taken in time.
    Every {
        id: RequestId,
        first: Duration,
        interval: Duration,
    },
}

/// Number of a request, counted from one. It separates answers from those to earlier requests.
pub(super) type RequestId = u64;

/// Size of the header of an answer: its length and the number of its request.
pub(super) const ANSWER_HEAD: usize = 4 + size_of::<RequestId>();

/// Answer to a request for a sample.
pub type Answer = Result<Sample, DriverFault>;

/// Maximum length; far more than 1024 GPUs with 64 processes each take.
pub(super) const LONGEST: usize = 64 << 20;

/// Returns the bytes of a frame, length first.
pub(super) fn encode(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_extend(content, vec![0; 4]).map_err(io::Error::other)?;
    with_length(bytes)
}

fn with_length(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let length = checked_length(bytes.len() - 4)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

fn checked_length(length: usize) -> io::Result<u32> {
    u32::try_from(length)
        .ok()
        .filter(|_| length <= LONGEST)
        .ok_or_else(too_long)
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the frame is too long")
}

/// Returns the length of the content, from the first four bytes.
pub(super) fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if length <= LONGEST {
        Ok(length)
    } else {
        Err(too_long())
    }
}

pub(super) fn decode<Content: DeserializeOwned>(bytes: &[u8]) -> io::Result<Content> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the length of an answer and the number of its request.
pub(super) fn answer_head(head: [u8; ANSWER_HEAD]) -> io::Result<(usize, RequestId)> {
    let [a, b, c, d, id @ ..] = head;
    Ok((length([a, b, c, d])?, RequestId::from_le_bytes(id)))
}

/// Decodes an answer of the child. Any bytes are safe to pass.
pub fn decode_answer(bytes: &[u8]) -> io::Result<Answer> {
    decode(bytes)
}

/// Reads the next frame; `None` at the end of the input.
pub(super) fn read<Content: DeserializeOwned>(
    input: &mut impl Read,
) -> io::Result<Option<Content>> {
    let mut head = [0; 4];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        answer => answer?,
    }
    let mut bytes = vec![0; length(head)?];
    input.read_exact(&mut bytes)?;
    decode(&bytes).map(Some)
}

pub(super) fn write(output: &mut impl Write, content: &impl Serialize) -> io::Result<()> {
    output.write_all(&encode(content)?)?;
    output.flush()
}

/// Writes an answer in one call, through a buffer that is reused.
pub(super) fn write_answer(
    output: &mut impl Write,
    buffer: &mut Vec<u8>,
    id: RequestId,
    answer: &Answer,
) -> io::Result<()> {
    let mut bytes = std::mem::take(buffer);
    bytes.clear();
    bytes.resize(ANSWER_HEAD, 0);
    let mut bytes = postcard::to_extend(answer, bytes).map_err(io::Error::other)?;
    let length = checked_length(bytes.len() - ANSWER_HEAD)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..ANSWER_HEAD].copy_from_slice(&id.to_le_bytes());
    output.write_all(&bytes)?;
    *buffer = bytes;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_reads_back_and_the_end_of_input_is_no_error() {
        let mut bytes = Vec::new();
        let answer: Answer = Err(DriverFault::Init {
            code: 18,
            text: "mismatch".to_owned(),
        });
        write(&mut bytes, &answer).unwrap();
        write(&mut bytes, &answer).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read::<Answer>(&mut input).unwrap(), Some(answer.clone()));
        assert_eq!(read::<Answer>(&mut input).unwrap(), Some(answer));
        assert_eq!(read::<Answer>(&mut input).unwrap(), None);
    }

    #[test]
    fn an_answer_says_what_it_answers() {
        let answer: Answer = Err(DriverFault::Init {
            code: 9,
            text: "no driver".to_owned(),
        });
        let (mut bytes, mut buffer) = (Vec::new(), Vec::new());
        write_answer(&mut bytes, &mut buffer, 7, &answer).unwrap();
        let (head, content) = bytes.split_first_chunk().unwrap();
        assert_eq!(answer_head(*head).unwrap(), (content.len(), 7));
        assert_eq!(decode_answer(content).unwrap(), answer);
    }

    #[test]
    fn an_absurd_length_is_refused_before_anything_is_allocated() {
        let mut input: &[u8] = &[0xff; 64];
        assert_eq!(
            read::<Answer>(&mut input).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_and_never_panic(bytes: Vec<u8>) {
            let _ = decode_answer(&bytes);
            let _ = decode::<Request>(&bytes);
        }
    }
}
