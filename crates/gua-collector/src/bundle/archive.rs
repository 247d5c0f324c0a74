//! A gzip-compressed tar archive of small files, in the ustar format (POSIX.1-1988, `pax(1)`).

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;

use super::BundleFile;

/// Size of a block; headers and contents fill whole blocks.
const BLOCK: usize = 512;

pub(super) fn tar_gz(files: &[BundleFile], at: Timestamp) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    for file in files {
        out.write_all(&header(file, at))?;
        out.write_all(file.text.as_bytes())?;
        let rest = file.text.len() % BLOCK;
        out.write_all(&[0; BLOCK][..(BLOCK - rest) % BLOCK])?;
    }
    // Two empty blocks end an archive.
    out.write_all(&[0; 2 * BLOCK])?;
    out.finish()
}

/// Returns the header of a regular file of mode 0600 that belongs to nobody.
fn header(file: &BundleFile, at: Timestamp) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |place: usize, text: &str| {
        header[place..place + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, &format!("gua-bundle/{}", file.name));
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", file.text.len()));
    put(136, &format!("{:011o}", at.as_second().max(0)));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    // The sum of all bytes, with blanks in place of the sum itself.
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    let sum = format!("{sum:06o}\0 ");
    header[148..156].copy_from_slice(sum.as_bytes());
    header
}
