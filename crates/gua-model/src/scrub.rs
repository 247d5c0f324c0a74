//! Removal of private words from text that people share for support.
//!
//! The rule lists what may stay, not what must go, because a secret can have any form: words of letters, short numbers with a unit, names
//! of driver functions and of gua's own variables. Quoted text, paths, addresses, tokens and every other word are replaced. Words of letters can be
//! names too, so the caller passes the names of the users and hosts that it knows.

use std::collections::BTreeSet;

/// Replacement of a removed word.
pub const HIDDEN: &str = "(hidden)";

/// Maximum number of digits of a number that is kept.
const MAX_DIGITS: usize = 12;

/// Words with a dot that are kept.
const KEPT: [&str; 3] = ["libnvidia-ml.so.1", "libnvidia-ml.so", "etc."];

/// Words of gua's own messages that are kept even if a user, a group or an argument has the same name.
const GENERAL: [&str; 20] = [
    "board", "cpu", "daemon", "driver", "error", "gpu", "gpus", "gua", "history", "host", "kernel",
    "linux", "log", "memory", "nvidia", "process", "root", "service", "system", "user",
];

/// Removes private words.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    /// Names of users, groups and hosts, in lower case.
    names: BTreeSet<String>,
}

impl Scrubber {
    /// Makes a scrubber that also removes these names, and the part of a host name before the first dot.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut all = BTreeSet::new();
        for name in names {
            let name = name.to_lowercase();
            all.extend(name.split_once('.').map(|(short, _)| short.to_owned()));
            all.insert(name);
        }
        all.remove("");
        all.retain(|name| !GENERAL.contains(&name.as_str()));
        Self { names: all }
    }

    /// Returns the text without private words.
    pub fn text(&self, text: &str) -> String {
        let mut scrubbed = String::with_capacity(text.len());
        let mut rest = text;
        // Quoted text may contain blanks. An apostrophe inside a word opens no quote.
        while let Some((place, quote)) = next_quote(rest) {
            let (before, quoted) = rest.split_at(place);
            self.words(before, &mut scrubbed);
            scrubbed.push_str(HIDDEN);
            let quoted = &quoted[quote.len_utf8()..];
            let end = quoted.find(quote).map(|end| end + quote.len_utf8());
            rest = end.map_or("", |end| &quoted[end..]);
        }
        self.words(rest, &mut scrubbed);
        scrubbed
    }

    fn words(&self, text: &str, scrubbed: &mut String) {
        let mut is_after_pid = false;
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            let blank = &piece[word.len()..];
            // `pid 4711 (python3) of ada, and`: a process and its user.
            is_after_pid = match word {
                "pid" => true,
                _ if is_after_pid && word.ends_with(',') => {
                    scrubbed.push_str(HIDDEN);
                    scrubbed.push_str(&format!(",{blank}"));
                    is_after_pid = false;
                    continue;
                }
                _ if is_after_pid && is_number(word) => true,
                _ if is_after_pid => {
                    scrubbed.push_str(&format!("{HIDDEN}{blank}"));
                    continue;
                }
                _ => false,
            };
            self.word(word, scrubbed);
            scrubbed.push_str(blank);
        }
    }

    /// Scrubs one word with the punctuation around it.
    fn word(&self, word: &str, scrubbed: &mut String) {
        let core = word.trim_start_matches(['(', '[', '{', '<']);
        let before = &word[..word.len() - core.len()];
        let kept = core.trim_end_matches([',', ';', ':', '.', ')', ']', '}', '>', '!', '?']);
        let after = &core[kept.len()..];
        scrubbed.push_str(before);
        match kept.split_once('=') {
            Some((key, value)) if is_word(key) && !value.is_empty() => {
                scrubbed.push_str(&format!("{key}="));
                self.word(value, scrubbed);
            }
            _ if kept.is_empty() || self.may_stay(kept) => scrubbed.push_str(kept),
            _ => scrubbed.push_str(HIDDEN),
        }
        scrubbed.push_str(after);
    }

    /// Whether a word is a name or contains one as a whole part: `ada-jupyter`, `a_lovelace-2`.
    fn has_name(&self, word: &str) -> bool {
        let parts = parts(word);
        let names_from = |first: usize| {
            let begin = parts[first].0;
            let mut ends = parts[first..].iter().map(|part| part.1);
            ends.any(|end| self.names.contains(&word[begin..end]))
        };
        self.names.contains(word) || (0..parts.len()).any(names_from)
    }

    fn may_stay(&self, word: &str) -> bool {
        if self.has_name(&word.to_lowercase()) {
            return false;
        }
        let is_variable = word.starts_with("GUA_") || word.starts_with("nvml");
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        is_word(word)
            || is_number(word)
            || (is_variable && word.len() < 60 && word.chars().all(is_name))
            || KEPT.contains(&word)
    }
}

/// Returns where the parts of a word begin and end: `ada_b-x` has the parts `ada`, `b` and `x`.
fn parts(word: &str) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut start = None;
    for (place, letter) in word.char_indices() {
        match (letter.is_alphanumeric(), start) {
            (true, None) => start = Some(place),
            (false, Some(from)) => {
                parts.push((from, place));
                start = None;
            }
            _ => {}
        }
    }
    parts.extend(start.map(|from| (from, word.len())));
    parts
}

/// Finds the next quote that opens quoted text.
fn next_quote(text: &str) -> Option<(usize, char)> {
    let mut before = ' ';
    for (place, letter) in text.char_indices() {
        let opens = matches!(letter, '`' | '"') || (letter == '\'' && !before.is_alphanumeric());
        if opens {
            return Some((place, letter));
        }
        before = letter;
    }
    None
}

/// Whether a word has letters only, with hyphens or an apostrophe inside: `idle-held`, `driver's`.
fn is_word(word: &str) -> bool {
    let is_inside = |letter: char| matches!(letter, '-' | '\'' | '_');
    word.len() < 24
        && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphabetic() || is_inside(letter))
}

/// Whether a word is a number with a short unit, a version or a time: `30s`, `550.54.15`, `80%`, `12:30:00`. An address has
/// too many dots.
pub fn is_number(word: &str) -> bool {
    let unit = word
        .trim_start_matches(|letter: char| letter.is_ascii_digit() || ".,:%+-/".contains(letter));
    let number = &word[..word.len() - unit.len()];
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    number.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-' || letter == '+')
        && (1..=MAX_DIGITS).contains(&digits)
        && number.matches('.').count() <= 2
        && unit.len() <= 3
        && unit
            .bytes()
            .all(|letter| letter.is_ascii_alphabetic() || letter == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let names = [
            "ada",
            "gpu-server01.example.org",
            "Vision-Lab",
            "grace_hopper",
        ];
        let scrubber = Scrubber::new(names.map(str::to_owned));
        assert_eq!(scrubber.text(text), expected, "{text}");
    }

    #[test]
    fn plain_messages_stay() {
        for text in [
            "The driver did not answer within 10 s (NVML code 999).",
            "nvmlDeviceGetPowerUsage: not supported (code=3)",
            "2 of 8 GPUs are idle-held; the driver's version is 550.54.15, 80% used.",
            "GUA_INTERVAL must be greater than zero",
            "ticks wait already: 17, at 12:30:00",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn private_words_go() {
        for (text, expected) in [
            ("owner is ada.", "owner is (hidden)."),
            (
                "on gpu-server01 and gpu-server01.example.org:",
                "on (hidden) and (hidden):",
            ),
            (
                "group vision-lab, Ada's ada-jupyter",
                "group (hidden), (hidden) (hidden)",
            ),
            (
                "grace_hopper's run, grace_hopper-2 (Grace_Hopper)",
                "(hidden) run, (hidden) ((hidden))",
            ),
            // A blank ends a path; what follows is judged by itself.
            (
                "cannot read /home/ada/my secret/x",
                "cannot read (hidden) (hidden)",
            ),
            ("key `hunter two` is wrong", "key (hidden) is wrong"),
            (
                "value \"a b\" and 'c d' in 'e",
                "value (hidden) and (hidden) in (hidden)",
            ),
            ("https://user:pw@board.example.org/x?t=1", "(hidden)"),
            (
                "token=hst_9f8e7d6c5b4a39281706 host=h1",
                "token=(hidden) host=(hidden)",
            ),
            ("peer 192.168.1.20:443, fe80::1", "peer (hidden), (hidden)"),
            ("serial 1234567890123456", "serial (hidden)"),
            (
                "locked by pid 4711 (python3) of eve, and 7 ticks wait",
                "locked by pid 4711 (hidden) (hidden) (hidden), and 7 ticks wait",
            ),
            ("eve@example.org", "(hidden)"),
            ("naïve", "(hidden)"),
        ] {
            check(text, expected);
        }
    }
}
