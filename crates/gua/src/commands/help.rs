//! `gua help`: the help of a command, generated from the declarations in `cli`.

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::commands::prelude::*;

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

/// The command with this path.
pub fn find(path: &[String]) -> Result<clap::Command, Failure> {
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
        [] => format!("`{above}` has no subcommands"),
        names => format!("the commands of `{above}` are {}", names.join(", ")),
    };
    let last = path.last().map_or("", String::as_str);
    let near = suggestion(last, names.iter().copied());
    Failure::usage(format!(
        "no command `{}`; {there_are}{near}",
        wanted.escape_debug()
    ))
}
