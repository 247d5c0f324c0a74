//! Reads a day written by gpu_stats, or by gua in the same format. Every line is parsed independently: an invalid line
//! is skipped and reported with its number.

use gua_model::sane;
use thiserror::Error;

use super::{HEADER, Holder, NOBODY, Row};

/// The lines of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub rows: Vec<Row>,
    /// Invalid lines, by their numbers from 1 on.
    pub bad: Vec<(usize, RowError)>,
    /// Number of a last line without a newline: it may be a partial row, even if it parses.
    pub torn: Option<usize>,
}

/// A file that does not begin with the header of gpu_stats.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("its first line is not `{HEADER}`")]
pub struct NotGpuStats;

/// Reason a line is not a valid row.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RowError {
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it has {count} field{}, and a row has 5", if *.0 == 1 { "" } else { "s" }, count = .0)]
    Fields(usize),
    /// The column and its invalid value.
    #[error("`{}` cannot be its {column}", shown(.1), column = .0)]
    Value(&'static str, String),
}

/// The beginning of a text, escaped.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// Parses a whole file.
///
/// # Errors
/// If the first line is not the header. An empty file has no rows and is not an error.
pub fn parse(bytes: &[u8]) -> Result<Parsed, NotGpuStats> {
    let mut parsed = Parsed::default();
    if bytes.is_empty() {
        return Ok(parsed);
    }
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let Some(line) = line.strip_suffix(b"\n") else {
            if number == 1 && !HEADER.as_bytes().starts_with(line) {
                return Err(NotGpuStats);
            }
            parsed.torn = Some(number);
            break;
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 1 {
            if line != HEADER.as_bytes() {
                return Err(NotGpuStats);
            }
            continue;
        }
        // Two writers may each have written the header.
        if line.is_empty() || line == HEADER.as_bytes() {
            continue;
        }
        match std::str::from_utf8(line)
            .map_err(|_| RowError::NotText)
            .and_then(row)
        {
            Ok(row) => parsed.rows.push(row),
            Err(error) => parsed.bad.push((number, error)),
        }
    }
    Ok(parsed)
}

fn row(line: &str) -> Result<Row, RowError> {
    let fields = fields(line);
    let [at, user, pid, gpu, usage] = fields.as_slice() else {
        return Err(RowError::Fields(fields.len()));
    };
    let bad = |column, text: &str| RowError::Value(column, text.to_owned());
    let timestamp: i64 = number(at).ok_or_else(|| bad("timestamp", at))?;
    if sane::time(timestamp.saturating_mul(1_000_000)).is_none() {
        return Err(bad("timestamp", at));
    }
    if [user, pid, gpu].iter().all(|text| *text == NOBODY) {
        return Ok(Row {
            timestamp,
            holder: None,
        });
    }
    if user.is_empty() || *user == NOBODY {
        return Err(bad("user", user));
    }
    let usage = match usage.as_str() {
        "" => None,
        text => {
            let percent = number(text).filter(|percent: &u32| *percent <= 100);
            Some(percent.ok_or_else(|| bad("usage", text))?)
        }
    };
    Ok(Row {
        timestamp,
        holder: Some(Holder {
            user: user.clone(),
            pid: number(pid).ok_or_else(|| bad("pid", pid))?,
            gpu: number(gpu)
                .filter(|gpu| *gpu < 4096)
                .ok_or_else(|| bad("gpu", gpu))?,
            usage,
        }),
    })
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Splits a line into its fields and removes the quotes around quoted ones.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = fields.last_mut().expect("there is one from the start");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                last.push('"');
            }
            '"' if quoted || last.is_empty() => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}
