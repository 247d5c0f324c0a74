//! `gua config`: shows, checks and explains the configuration.

use std::path::Path;
use std::process::ExitCode;

use gua_settings::{FileSeen, FileState, Inputs, Loaded, Problem, describe, inputs};

use crate::cli::ConfigCommand;
use crate::dispatch::settled;
use crate::failure::Exit;
use crate::output;

pub fn run(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::of_this_process();
    match command {
        ConfigCommand::Default => output::data(&describe::default_file())?,
        ConfigCommand::Path => output::data(&describe::paths(&inputs))?,
        ConfigCommand::Check { path } => return check(path.as_deref(), &inputs),
        ConfigCommand::Show { json } => {
            let loaded = Loaded::from(&inputs, &[]);
            let settings = settled(&loaded)?;
            output::data(&match json {
                true => describe::settings_json(settings),
                false => describe::settings_toml(settings),
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints every error in the given file, or in all files and variables in use.
fn check(path: Option<&Path>, inputs: &Inputs) -> anyhow::Result<ExitCode> {
    let (problems, files, unknown) = match path {
        Some(path) => {
            let (problems, file) = gua_settings::check_file(path, inputs);
            (problems, vec![file], Vec::new())
        }
        None => {
            let loaded = Loaded::from(inputs, &[]);
            let unknown = inputs::unknown_variables();
            (loaded.problems, loaded.files, unknown)
        }
    };
    let warnings: String = unknown
        .iter()
        .map(|variable| format!("warning: {variable}\n"))
        .collect();
    output::data(&(warnings + &verdict(&problems, &files)))?;
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

fn verdict(problems: &[Problem], files: &[FileSeen]) -> String {
    let mut text: String = problems
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect();
    let fine: Vec<String> = files
        .iter()
        .filter(|file| file.state == FileState::Fine)
        .map(|file| file.path.display().to_string())
        .collect();
    match (problems.len(), fine.is_empty()) {
        (0, true) => text.push_str("no configuration file: the defaults count\n"),
        (_, true) => {}
        (_, false) => text.push_str(&format!("fine: {}\n", fine.join(", "))),
    }
    text
}
