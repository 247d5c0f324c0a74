//! Text for display: text from other sources (a driver, a process, a directory service) is sanitized, and durations are
//! formatted.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::Bytes;

/// Reports whether a character could control a terminal or reverse a line: control characters, bidirectional marks,
/// invisible characters.
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Replaces every harmful character by a visible one.
pub fn sanitize(text: &str) -> String {
    let shown = |letter| {
        if is_harmful(letter) {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

/// Formats a value for an error message: without terminal controls, and truncated.
pub fn in_message(value: &str) -> String {
    const SHOWN: usize = 60;
    let mut letters = value.chars();
    let shown = letters.by_ref().take(SHOWN);
    let mut text: String = shown.flat_map(char::escape_debug).collect();
    if letters.next().is_some() {
        text.push_str("...");
    }
    text
}

/// Escapes a text for a CSV cell, before quoting. A text that a spreadsheet would evaluate as a formula gets a leading
/// apostrophe, because names of users and processes come from other people.
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.len() > 1;
    match is_formula {
        true => Cow::Owned(format!("'{}", sanitize(text))),
        false if text.contains(is_harmful) => Cow::Owned(sanitize(text)),
        false => Cow::Borrowed(text),
    }
}

/// Encodes a text as one segment of a URL's path or one value of its query: all bytes except the unreserved characters of
/// RFC 3986.
pub fn percent_encode(text: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.iter().map(encode).collect()
}

/// Returns the width of a text in terminal columns: a Hangul or Chinese character takes two.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Sanitizes the text and truncates it to `room` columns; a truncated text ends in an ellipsis.
pub fn clip(text: &str, room: usize) -> String {
    let text = sanitize(text);
    if columns(&text) <= room {
        return text;
    }
    let mut kept = String::new();
    let mut used = 0;
    for letter in text.chars() {
        let wide = letter.width().unwrap_or(0);
        if used + wide + 1 > room {
            break;
        }
        used += wide;
        kept.push(letter);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// Splits a text between words into lines of at most `room` columns. A word that is longer than a line is not divided, so
/// that it can be copied.
pub fn wrapped(words: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words.split(' ') {
        let wide = columns_shown(word);
        if used > 0 && used + 1 + wide > room {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is at least one line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += wide;
    }
    lines
}

/// Wraps the lines of a page. Further lines begin below the last column of the line, or where the line began.
pub fn wrapped_page(page: &str, room: usize) -> String {
    let mut out = String::new();
    for line in page.lines() {
        let (beginning, words) = match columns_shown(line) > room {
            true => line.split_at(last_column(line, room / 2)),
            false => (line, ""),
        };
        let indent = " ".repeat(columns_shown(beginning));
        for (number, part) in wrapped(words, room.saturating_sub(indent.len()))
            .iter()
            .enumerate()
        {
            out.push_str(if number == 0 { beginning } else { &indent });
            out.push_str(part);
            out.push('\n');
        }
    }
    out
}

/// Byte at which the last column of a line begins within `room` columns. Two spaces separate columns.
fn last_column(line: &str, room: usize) -> usize {
    let start = line.len() - line.trim_start_matches(' ').len();
    let gaps = line[start..].match_indices("  ");
    let ends = gaps.map(|(gap, _)| {
        let rest = &line[start + gap..];
        start + gap + rest.len() - rest.trim_start_matches(' ').len()
    });
    ends.take_while(|end| columns_shown(&line[..*end]) <= room)
        .last()
        .unwrap_or(start)
}

/// Width of a text without its colours (`ESC [ ... m`).
fn columns_shown(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    columns(first) + rest.map(columns).sum::<usize>()
}

/// Gigabytes (2^30 bytes) with one decimal, rounded down.
pub fn gigabytes(bytes: Bytes) -> String {
    let tenths = gigabyte_tenths(bytes);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Tenths of a gigabyte (2^30 bytes), rounded down.
pub fn gigabyte_tenths(bytes: Bytes) -> u64 {
    bytes.whole_mb() * 10 / 1024
}

/// Formats a count with its noun: `1 row`, `2 rows`.
pub fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {one}{ending}")
}

/// Formats a duration: `8s`, `1m47s`, `20m`, `3h12m`, `2d5h`. Two units at most.
pub fn short_age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..600 => format!("{minutes}m{:02}s", seconds % 60),
        600..3600 => format!("{minutes}m"),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// A duration in its printed form: `0:01:00`, `1 day, 12:00:00`, `0:00:00.200000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clockwise(pub Duration);

impl fmt::Display for Clockwise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let micros = self.0.subsec_micros();
        match seconds / 86_400 {
            0 => {}
            1 => out.write_str("1 day, ")?,
            days => write!(out, "{days} days, ")?,
        }
        write!(
            out,
            "{}:{:02}:{:02}",
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        )?;
        if micros > 0 {
            write!(out, ".{micros:06}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_has_2_to_the_30_bytes() {
        let check = |bytes: u64, expected: &str| assert_eq!(gigabytes(Bytes(bytes)), expected);
        check(1 << 30, "1.0");
        check(80 << 30, "80.0");
        check((1 << 30) - 1, "0.9");
        check(1_000_000_000, "0.9");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a elephants b", 4), ["a", "elephants", "b"]);
        assert_eq!(wrapped("\u{1b}[1mone\u{1b}[0m two", 7).len(), 1);
        // Two columns for each Hangul syllable.
        assert_eq!(wrapped("유휴 점유", 8), ["유휴", "점유"]);
    }

    #[test]
    fn a_wrapped_page_keeps_its_columns() {
        let check = |page: &str, expected: &[&str]| {
            let lines = wrapped_page(page, 20);
            assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        };
        check("short\n\n  also short", &["short", "", "  also short"]);
        check("one two three four five", &["one two three four", "five"]);
        check("  one two three four", &["  one two three four"]);
        check("  one two three fours", &["  one two three", "  fours"]);
        // The gap across the middle belongs to neither column.
        check(
            "  name           one two",
            &["  name           one", "  two"],
        );
        check(
            "  name  one two three four",
            &["  name  one two", "        three four"],
        );
    }

    #[test]
    fn an_age_has_two_units_at_most() {
        let check = |seconds, expected: &str| {
            assert_eq!(short_age(Duration::from_secs(seconds)), expected);
        };
        check(0, "0s");
        check(59, "59s");
        check(61, "1m01s");
        check(600, "10m");
        check(3599, "59m");
        check(11_520, "3h12m");
        check(86_400 * 9 + 3600 * 5, "9d5h");
    }

    #[test]
    fn a_text_is_cut_by_columns_and_not_by_letters() {
        let check = |text: &str, room, expected: &str| {
            let cut = clip(text, room);
            assert_eq!(cut, expected, "{text} in {room}");
            assert!(columns(&cut) <= room, "{text} in {room}");
        };
        check("ada, bob", 8, "ada, bob");
        check("ada, bob", 5, "ada,…");
        check("ada", 0, "");
        check("김철수", 6, "김철수");
        check("김철수", 5, "김철…");
        check("김철수", 4, "김…");
        check("김", 1, "…");
        check("a\u{1b}[2J", 9, "a\u{fffd}[2J");
    }

    #[test]
    fn a_segment_of_a_url_contains_no_separator() {
        assert_eq!(percent_encode(b"Lab-1_a.b~"), "Lab-1_a.b~");
        let encoded = "a%20b%2Fc%3Fd%3De%26f%23%25";
        assert_eq!(percent_encode(b"a b/c?d=e&f#%"), encoded);
        assert_eq!(percent_encode("é\n".as_bytes()), "%C3%A9%0A");
    }

    #[test]
    fn a_value_in_a_message_is_never_a_screenful() {
        assert_eq!(in_message("a\u{1b}\n\"b"), "a\\u{1b}\\n\\\"b");
        assert_eq!(in_message(&"x".repeat(60)), "x".repeat(60));
        let long = format!("{}...", "é".repeat(60));
        assert_eq!(in_message(&"é".repeat(61)), long);
    }

    #[test]
    fn what_could_steer_a_terminal_is_replaced_one_for_one() {
        assert_eq!(sanitize("plain, ünïcode 日本"), "plain, ünïcode 日本");
        assert_eq!(
            sanitize("a\u{1b}[31mb\u{202e}c\nd"),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}d"
        );
    }
}
