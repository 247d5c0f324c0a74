//! Layout of the notes and examples at the end of a command's help.
//!
//! They are the sections `# Notes` and `# Examples` of the command's doc comment. An example is an item of a list: the command
//! in backticks, then a colon and its explanation if it has one.

/// Columns for examples. clap wraps them on a narrower terminal.
const WIDTH: usize = 80;

/// Moves the notes and examples of a command and of its subcommands from the description to the end of the help.
pub(crate) fn at_the_end(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(at_the_end);
    let about = command.get_long_about();
    let about = about.map(ToString::to_string).unwrap_or_default();
    let Some((rest, list)) = about.split_once("\n\n# Examples\n\n") else {
        return command;
    };
    let (long, notes) = match rest.split_once("\n\n# Notes\n\n") {
        Some((long, notes)) => (long, notes.replace("\n\n", "\n") + "\n\n"),
        None => (rest, String::new()),
    };
    let command = command.after_help(notes + &examples(list));
    // One paragraph is the short description alone.
    match long.contains("\n\n") {
        true => command.long_about(long.to_owned()),
        false => command.long_about(None),
    }
}

/// Lays out examples with each explanation beside its command, or above it if that is too wide.
fn examples(list: &str) -> String {
    let items = list.trim_start_matches("- `").split(" - `");
    let examples = items.map(|item| match item.split_once("`: ") {
        Some(explained) => explained,
        None => (item.trim_end_matches('`'), ""),
    });
    let examples: Vec<(&str, &str)> = examples.collect();
    let explained = || examples.iter().filter(|(_, why)| !why.is_empty());
    let widest = explained().map(|(command, _)| command.len()).max();
    let widest = widest.unwrap_or(0);
    let is_beside = explained().all(|(_, why)| widest + why.len() + "    ".len() <= WIDTH);
    let mut text = match examples.len() {
        1 => "Example:".to_owned(),
        _ => "Examples:".to_owned(),
    };
    for (command, why) in examples {
        text.push_str(&match (why, is_beside) {
            ("", _) => format!("\n  {}", continued(command)),
            (why, true) => format!("\n  {command:<widest$}  {why}"),
            (why, false) => format!("\n  # {why}\n  {}", continued(command)),
        });
    }
    text
}

/// A command that is continued on further lines, as in a shell, if it is too wide.
fn continued(command: &str) -> String {
    const INDENT: &str = "      ";
    let room = WIDTH - INDENT.len() - " \\".len();
    let breaks = [" --", " ||"].into_iter();
    let breaks = breaks.flat_map(|before| command.match_indices(before));
    match breaks.map(|(at, _)| at).filter(|at| *at <= room).max() {
        Some(at) if command.len() + "  ".len() > WIDTH => {
            let (line, rest) = command.split_at(at);
            format!("{line} \\\n{INDENT}{}", continued(rest.trim_start()))
        }
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &str) {
        assert_eq!(examples(list), expected);
    }

    #[test]
    fn short_explanations_are_beside_their_commands() {
        check("- `gua help`", "Example:\n  gua help");
        check(
            "- `gua demo`: the month - `gua demo top`: the live view - `gua demo report --user bob --json`",
            "Examples:\n  gua demo      the month\n  gua demo top  the live view\n  gua demo report --user bob --json",
        );
    }

    #[test]
    fn long_explanations_are_above_their_commands() {
        let list = "- `gua report --since last-month --until this-month --compare`: last month, compared with the month before - `gua report`";
        let expected = "Examples:\n  # last month, compared with the month before\n  gua report --since last-month --until this-month --compare\n  gua report";
        check(list, expected);
    }

    #[test]
    fn a_long_command_is_continued_before_an_option() {
        let list = "- `gua board serve --listen 0.0.0.0:443 --certificate board.pem --key board.key --url https://board.example.com`";
        let expected = "Example:\n  gua board serve --listen 0.0.0.0:443 --certificate board.pem \\\n      --key board.key --url https://board.example.com";
        check(list, expected);
    }
}
