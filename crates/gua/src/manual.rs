//! Help, completions and manual pages, all made from the declarations in `cli`.

pub mod page;

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::cli::{Cli, GROUPS};
use crate::failure::Failure;

/// The whole command tree, with the commands listed in their groups.
#[must_use]
pub fn tree() -> clap::Command {
    let tree = Cli::command();
    let styles = tree.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut listing = String::new();
    for (group, names) in GROUPS {
        listing.push_str(&format!("{header}{group}:{header:#}\n"));
        for name in *names {
            let about = tree
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            listing.push_str(&format!("  {literal}{name:<12}{literal:#} {about}\n"));
        }
        listing.push('\n');
    }
    let names = PossibleValuesParser::new(command_names(&tree));
    tree.mut_subcommand("help", |help| {
        help.mut_arg("command", |command| {
            command.value_parser(names).hide_possible_values(true)
        })
    })
    .help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listing}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// What `gua help` accepts: the commands, and (not offered by completion) the commands below them.
fn command_names(tree: &clap::Command) -> Vec<PossibleValue> {
    let mut names: Vec<PossibleValue> = Vec::new();
    let mut add = |name: &str, hidden: bool| {
        if !names.iter().any(|known| known.get_name() == name) {
            names.push(PossibleValue::new(name.to_owned()).hide(hidden));
        }
    };
    for command in tree.get_subcommands() {
        add(command.get_name(), command.is_hide_set());
    }
    for below in tree
        .get_subcommands()
        .flat_map(clap::Command::get_subcommands)
    {
        add(below.get_name(), true);
    }
    names
}

/// The long help of a command, or of the whole program for an empty path.
pub fn help(path: &[String]) -> Result<String, Failure> {
    let mut command = find(path)?;
    Ok(command.render_long_help().ansi().to_string())
}

/// The usage line of the command that `arguments` were meant for.
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
    let tree = tree();
    // The generators offer hidden commands too, so they get a tree without them.
    let offered = command_names(&tree)
        .into_iter()
        .filter(|name| !name.is_hide_set());
    let offered = PossibleValuesParser::new(offered);
    let mut visible = clap::Command::new("gua")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .disable_help_subcommand(true)
        .args(tree.get_arguments().cloned())
        .subcommands(visible_commands(&tree).cloned())
        .mut_subcommand("help", |help| {
            help.mut_arg("command", |command| command.value_parser(offered))
        });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible, "gua", &mut script);
    script
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
            None => {
                let message = format!("there is no command `{}`", path.join(" ").escape_debug());
                return Err(Failure::usage(message).hint("`gua help` lists the commands"));
            }
        };
    }
    Ok(command)
}

/// The tree with every derived name filled in.
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
