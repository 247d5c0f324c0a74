//! Texts that others wrote (a driver, a process, a directory service), made fit to be shown.

/// Whether a character could steer a terminal or turn a line around: controls, bidirectional marks, invisible ones.
#[must_use]
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text with every harmful character replaced by one that shows that something was there.
#[must_use]
pub fn harmless(text: &str) -> String {
    let shown = |letter| {
        if is_harmful(letter) {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_replaced_one_for_one() {
        assert_eq!(harmless("plain, ünïcode 日本"), "plain, ünïcode 日本");
        assert_eq!(
            harmless("a\u{1b}[31mb\u{202e}c\nd"),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}d"
        );
    }
}
