//! Help, shell completions and manual pages, all generated from the declarations in `cli`.

pub mod page;

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::cli::{Cli, GROUPS};
use crate::failure::Failure;

/// Maximum width of help in columns, whatever the width of the terminal.
pub const WIDEST: usize = 100;

/// The whole command tree, with the commands listed in their groups.
#[must_use]
pub fn tree() -> clap::Command {
    let tree = Cli::command();
    let header = tree.get_styles().get_header();
    let listing = listing(&tree);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listing}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    tree.help_template(template)
}

/// List of the commands by group. clap formats the lines, so that they wrap at the terminal's width like other help.
fn listing(tree: &clap::Command) -> String {
    let names = || GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let mut plain = clap::Command::new("gua")
        .help_template("{subcommands}")
        .styles(tree.get_styles().clone())
        .max_term_width(WIDEST)
        .disable_help_subcommand(true)
        .subcommands(names().enumerate().map(|(place, name)| {
            let about = tree
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            clap::Command::new(name)
                .about(about.cloned().unwrap_or_default())
                .display_order(place)
        }));
    let laid_out = plain.render_help().ansi().to_string();
    let mut lines = laid_out
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();

    let header = tree.get_styles().get_header();
    let mut listing = String::new();
    for (group, names) in GROUPS {
        listing.push_str(&format!("{header}{group}:{header:#}\n"));
        for _ in *names {
            // The first line of a command is indented by two columns, continuation lines by more.
            let mut first = true;
            while let Some(line) = lines.next_if(|line| first || line.starts_with("   ")) {
                listing.push_str(&format!("{line}\n"));
                first = false;
            }
        }
        listing.push('\n');
    }
    listing
}

/// The long help of a command, or of the whole program for an empty path.
pub fn help(path: &[String]) -> Result<String, clap::Error> {
    match find(path) {
        Ok(mut command) => Ok(command.render_long_help().ansi().to_string()),
        Err(failure) => {
            let tree = built();
            let mut asked = tree.find_subcommand("help").unwrap_or(&tree).clone();
            Err(asked.error(ErrorKind::InvalidSubcommand, failure))
        }
    }
}

/// Usage line of the deepest command named in `arguments`.
#[must_use]
pub fn usage(arguments: &[OsString]) -> String {
    let mut command = built();
    for argument in arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
    {
        if let Some(below) = command.find_subcommand(argument) {
            command = below.clone();
        }
    }
    command.render_usage().ansi().to_string()
}

/// The completion script of one shell.
#[must_use]
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    // The generators include hidden commands, so they get a tree without them. In this tree, `help` has the other
    // commands as subcommands, so that they are completed at every level. `help` itself is left out, because fish would
    // consider it as already typed.
    let tree = tree();
    let commands = visible_commands(&tree).map(|command| match command.get_name() {
        "help" => explained(&tree, command),
        _ => command.clone(),
    });
    let mut visible = clap::Command::new("gua")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .disable_help_subcommand(true)
        .args(tree.get_arguments().cloned())
        .subcommands(commands);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible, "gua", &mut script);
    script
}

/// The command `help` with all other commands as its subcommands.
fn explained(tree: &clap::Command, help: &clap::Command) -> clap::Command {
    let others = visible_commands(tree).filter(|command| command.get_name() != help.get_name());
    names_alone(help).subcommands(others.map(names_alone))
}

/// Copy of a command and its subcommands without their arguments.
fn names_alone(command: &clap::Command) -> clap::Command {
    clap::Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .subcommands(visible_commands(command).map(names_alone))
}

fn visible_commands(tree: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    tree.get_subcommands()
        .filter(|command| !command.is_hide_set())
}

fn find(path: &[String]) -> Result<clap::Command, Failure> {
    let mut command = built();
    for name in path {
        command = match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => return Err(no_such_command(&command, path)),
        };
    }
    Ok(command)
}

/// Error for an unknown command. `above` is the last command of `path` that exists.
fn no_such_command(above: &clap::Command, path: &[String]) -> Failure {
    let wanted = path.join(" ");
    let names: Vec<&str> = visible_commands(above)
        .map(clap::Command::get_name)
        .collect();
    let above = above.get_bin_name().unwrap_or("gua");
    let there_are = match names.as_slice() {
        [] => format!("`{above}` has no commands"),
        names => format!("the commands of `{above}` are {}", names.join(", ")),
    };
    Failure::usage(format!(
        "there is no command `{}`; {there_are}",
        wanted.escape_debug()
    ))
}

/// Command tree after `build`, which fills in derived names.
fn built() -> clap::Command {
    let mut tree = tree();
    tree.build();
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_stands_in_one_group() {
        let tree = tree();
        let mut visible: Vec<&str> = visible_commands(&tree)
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }

    #[test]
    fn the_declarations_contradict_nothing() {
        tree().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_an_example() {
        fn check(command: &clap::Command) {
            for below in visible_commands(command) {
                let text = below
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    text.contains("Example"),
                    "`{}` has no example",
                    below.get_name()
                );
                check(below);
            }
        }
        check(&tree());
    }
}
