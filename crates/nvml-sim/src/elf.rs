//! Hiding names in a shared library's dynamic symbol table. Reads 64-bit little-endian ELF and refuses all else; bytes
//! that are not such a file give an error, never a panic.

use std::fmt;

/// Why the names could not be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElfError {
    NotElf,
    NoSymbols,
    Truncated,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElfError::NotElf => "not a 64-bit little-endian ELF file",
            ElfError::NoSymbols => "no dynamic symbol table",
            ElfError::Truncated => "a table points outside the file",
        })
    }
}

const DYNAMIC_SYMBOLS: u32 = 11;
const SYMBOL_SIZE: usize = 24;
const SECTION_SIZE: usize = 64;

/// Replaces the first letter of each name by `x`. The loader's hash table still leads to the symbol, and there the
/// comparison of the names fails.
pub(crate) fn hide_symbols(file: &mut [u8], names: &[&str]) -> Result<usize, ElfError> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err(ElfError::NotElf);
    }
    let (symbols, strings) = tables(file)?;
    let mut hits = Vec::new();
    for entry in (symbols.start..symbols.end).step_by(SYMBOL_SIZE) {
        let name_at = number::<4>(file, Some(entry))?;
        let start = strings
            .start
            .checked_add(name_at)
            .ok_or(ElfError::Truncated)?;
        let name = file.get(start..strings.end).ok_or(ElfError::Truncated)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        if names.iter().any(|hidden| hidden.as_bytes() == name) {
            hits.push(start);
        }
    }
    for start in &hits {
        file[*start] = b'x';
    }
    Ok(hits.len())
}

type Range = std::ops::Range<usize>;

/// Where the dynamic symbols and their names stand.
fn tables(file: &[u8]) -> Result<(Range, Range), ElfError> {
    let sections = number::<8>(file, Some(0x28))?;
    let count = number::<2>(file, Some(0x3c))?;
    let section = |index: usize| {
        index
            .checked_mul(SECTION_SIZE)
            .and_then(|offset| offset.checked_add(sections))
            .ok_or(ElfError::Truncated)
    };
    let range = |header: usize| {
        let start = number::<8>(file, header.checked_add(0x18))?;
        let size = number::<8>(file, header.checked_add(0x20))?;
        let end = start.checked_add(size).ok_or(ElfError::Truncated)?;
        if end > file.len() {
            return Err(ElfError::Truncated);
        }
        Ok(start..end)
    };
    for index in 0..count {
        let header = section(index)?;
        if number::<4>(file, header.checked_add(4))? == DYNAMIC_SYMBOLS as usize {
            let names = section(number::<4>(file, header.checked_add(0x28))?)?;
            return Ok((range(header)?, range(names)?));
        }
    }
    Err(ElfError::NoSymbols)
}

/// A little-endian number of N bytes.
fn number<const N: usize>(file: &[u8], at: Option<usize>) -> Result<usize, ElfError> {
    let at = at.ok_or(ElfError::Truncated)?;
    let end = at.checked_add(N).ok_or(ElfError::Truncated)?;
    let bytes = file.get(at..end).ok_or(ElfError::Truncated)?;
    let value = bytes
        .iter()
        .rev()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).map_err(|_| ElfError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_that_are_no_library_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = hide_symbols(&mut bytes, &["nvmlInit"]);
            let header = b"\x7fELF\x02\x01";
            if bytes.len() > header.len() {
                bytes[..header.len()].copy_from_slice(header);
                let _ = hide_symbols(&mut bytes, &["nvmlInit"]);
            }
        }
    }
}
