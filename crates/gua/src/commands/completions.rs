//! `gua completions`: the completion script of a shell, generated from the declarations in `cli`.

use crate::commands::prelude::*;

/// The completion script of one shell.
pub fn script(shell: clap_complete::Shell) -> Vec<u8> {
    // The generators include hidden commands, so they get a tree without them. In this tree, `help` has the other
    // commands as subcommands, so that they are completed at every level. `help` itself is left out, because fish would
    // consider it as already typed.
    let tree = tree();
    let commands = visible_commands(&tree).map(|command| match command.get_name() {
        "help" => explained(&tree, command),
        _ => command.clone(),
    });
    let mut visible = clap::Command::new("gua")
        .version(VERSION)
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
