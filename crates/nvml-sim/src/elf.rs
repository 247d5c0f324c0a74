//! Hides names in a shared library's dynamic symbol table. Supports 64-bit little-endian ELF only; any other input is
//! an error, never a panic.

use std::fmt;

/// Reason why the names could not be hidden.
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

const DYNAMIC_SYMBOLS: usize = 11;
const SYMBOL_SIZE: usize = 24;
const SECTION_SIZE: usize = 64;

/// Replaces the first letter of each name by `x`. The loader's hash table still finds the symbol, but the comparison of
/// the names fails.
pub(crate) fn hide_symbols(file: &mut [u8], names: &[&str]) -> Result<usize, ElfError> {
    let hits: Vec<usize> = symbols(file)?
        .into_iter()
        .filter(|symbol| names.iter().any(|hidden| hidden.as_bytes() == symbol.name))
        .map(|symbol| symbol.name_at)
        .collect();
    for name_at in &hits {
        file[*name_at] = b'x';
    }
    Ok(hits.len())
}

/// Returns the byte range of an exported object in the file.
pub(crate) fn object(file: &[u8], name: &str) -> Result<Range, ElfError> {
    let symbols = symbols(file)?;
    let symbol = symbols
        .iter()
        .find(|symbol| symbol.name == name.as_bytes())
        .ok_or(ElfError::NoSymbols)?;
    let address = number::<8>(file, symbol.entry.checked_add(8))?;
    let size = number::<8>(file, symbol.entry.checked_add(16))?;
    for header in sections(file)? {
        let start = number::<8>(file, header.checked_add(0x10))?;
        let content = content(file, header);
        // The object lies in the section whose address range contains it, at the same offset as in memory.
        if let (Ok(content), Some(offset)) = (content, address.checked_sub(start))
            && let Some(end) = offset.checked_add(size)
            && start != 0
            && end <= content.len()
        {
            return Ok(content.start + offset..content.start + end);
        }
    }
    Err(ElfError::Truncated)
}

/// An entry of the dynamic symbol table.
struct Symbol<'a> {
    entry: usize,
    name_at: usize,
    name: &'a [u8],
}

fn symbols(file: &[u8]) -> Result<Vec<Symbol<'_>>, ElfError> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err(ElfError::NotElf);
    }
    let (entries, strings) = tables(file)?;
    entries
        .step_by(SYMBOL_SIZE)
        .map(|entry| {
            let offset = number::<4>(file, Some(entry))?;
            let name_at = strings
                .start
                .checked_add(offset)
                .ok_or(ElfError::Truncated)?;
            let name = file.get(name_at..strings.end).ok_or(ElfError::Truncated)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            Ok(Symbol {
                entry,
                name_at,
                name,
            })
        })
        .collect()
}

type Range = std::ops::Range<usize>;

/// Returns the byte ranges of the dynamic symbols and of their names.
fn tables(file: &[u8]) -> Result<(Range, Range), ElfError> {
    let sections = sections(file)?;
    for header in &sections {
        if number::<4>(file, header.checked_add(4))? == DYNAMIC_SYMBOLS {
            let names = number::<4>(file, header.checked_add(0x28))?;
            let names = sections.get(names).ok_or(ElfError::Truncated)?;
            return Ok((content(file, *header)?, content(file, *names)?));
        }
    }
    Err(ElfError::NoSymbols)
}

/// Returns the offsets of the section headers.
fn sections(file: &[u8]) -> Result<Vec<usize>, ElfError> {
    let start = number::<8>(file, Some(0x28))?;
    let count = number::<2>(file, Some(0x3c))?;
    let end = start
        .checked_add(count * SECTION_SIZE)
        .filter(|end| *end <= file.len())
        .ok_or(ElfError::Truncated)?;
    Ok((start..end).step_by(SECTION_SIZE).collect())
}

/// Returns the byte range of the section with this header.
fn content(file: &[u8], header: usize) -> Result<Range, ElfError> {
    let start = number::<8>(file, header.checked_add(0x18))?;
    let size = number::<8>(file, header.checked_add(0x20))?;
    start
        .checked_add(size)
        .filter(|end| *end <= file.len())
        .map(|end| start..end)
        .ok_or(ElfError::Truncated)
}

/// Reads a little-endian number of N bytes.
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
            let _ = object(&bytes, "nvmlInit");
            let header = b"\x7fELF\x02\x01";
            if bytes.len() > header.len() {
                bytes[..header.len()].copy_from_slice(header);
                let _ = hide_symbols(&mut bytes, &["nvmlInit"]);
                let _ = object(&bytes, "nvmlInit");
            }
        }
    }
}
