//! The format on the pipe: a length in four bytes, then that many bytes of postcard. The parent sends the options of the
//! probe once, and then an empty frame for each sample. Both ends are the same binary, so the format has no versions; an
//! impossible length or content ends the connection.

use std::io::{self, Read, Write};

use gua_model::Sample;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::DriverFault;

/// Size of the length before each content.
pub(super) const HEAD: usize = 4;

/// Answer to a request for a sample.
pub type Answer = Result<Sample, DriverFault>;

/// Maximum length; far more than 1024 GPUs with 64 processes each take.
pub(super) const MAX_BYTES: usize = 64 << 20;

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the frame is too long")
}

/// Returns the length of the content.
pub(super) fn length(head: [u8; HEAD]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    match length <= MAX_BYTES {
        true => Ok(length),
        false => Err(too_long()),
    }
}

fn decode<Content: DeserializeOwned>(bytes: &[u8]) -> io::Result<Content> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Decodes an answer of the child. Any bytes are safe to pass.
pub fn decode_answer(bytes: &[u8]) -> io::Result<Answer> {
    decode(bytes)
}

/// Reads the next frame; `None` at the end of the input.
pub(super) fn read<Content: DeserializeOwned>(
    input: &mut impl Read,
) -> io::Result<Option<Content>> {
    let mut head = [0; HEAD];
    match input.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        answer => answer?,
    }
    let mut bytes = vec![0; length(head)?];
    input.read_exact(&mut bytes)?;
    decode(&bytes).map(Some)
}

/// Writes a frame in one call, through a buffer that can be reused.
pub(super) fn write(
    output: &mut impl Write,
    buffer: &mut Vec<u8>,
    content: &impl Serialize,
) -> io::Result<()> {
    let mut bytes = std::mem::take(buffer);
    bytes.clear();
    bytes.resize(HEAD, 0);
    let mut bytes = postcard::to_extend(content, bytes).map_err(io::Error::other)?;
    let length = bytes.len() - HEAD;
    let head = u32::try_from(length).ok().filter(|_| length <= MAX_BYTES);
    bytes[..HEAD].copy_from_slice(&head.ok_or_else(too_long)?.to_le_bytes());
    output.write_all(&bytes)?;
    *buffer = bytes;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::ProbeOptions;
    use proptest::prelude::*;

    #[test]
    fn a_frame_reads_back_and_the_end_of_input_is_no_error() {
        let (mut bytes, mut buffer) = (Vec::new(), Vec::new());
        let answer: Answer = Err(DriverFault::Init {
            code: 18,
            text: "mismatch".to_owned(),
        });
        write(&mut bytes, &mut buffer, &answer).unwrap();
        write(&mut bytes, &mut buffer, &answer).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read::<Answer>(&mut input).unwrap(), Some(answer.clone()));
        assert_eq!(read::<Answer>(&mut input).unwrap(), Some(answer));
        assert_eq!(read::<Answer>(&mut input).unwrap(), None);
    }

    #[test]
    fn the_length_of_an_answer_is_in_its_head() {
        let answer: Answer = Err(DriverFault::Init {
            code: 9,
            text: "no driver".to_owned(),
        });
        let mut bytes = Vec::new();
        write(&mut bytes, &mut Vec::new(), &answer).unwrap();
        let (head, content) = bytes.split_first_chunk().unwrap();
        assert_eq!(length(*head).unwrap(), content.len());
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
            let _ = decode::<ProbeOptions>(&bytes);
        }
    }
}
