//! `gua config`: shows, checks and explains the configuration.

use std::path::Path;

use gua_settings::describe::ConfigDocument;
use gua_settings::{FileSeen, FileState, Problem, check_file, describe, inputs};

use crate::commands::prelude::*;

pub fn run(command: &ConfigCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let text = match command {
        ConfigCommand::Default => describe::default_file(),
        ConfigCommand::Path => describe::paths(&context.loaded.inputs),
        ConfigCommand::Check { path } => return check(path.as_deref(), context),
        ConfigCommand::Show { json: true } => {
            pretty(&ConfigDocument::new(context.loaded.checked()?))
        }
        ConfigCommand::Show { json: false } => describe::settings_toml(context.loaded.checked()?),
    };
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints every error in the given file, or in all files and variables in use.
fn check(path: Option<&Path>, context: &Context) -> anyhow::Result<ExitCode> {
    let loaded = &context.loaded;
    let (problems, files, unknown) = match path {
        Some(path) => {
            let (problems, file) = check_file(path, &loaded.inputs);
            (problems, vec![file], Vec::new())
        }
        None => (
            loaded.problems.clone(),
            loaded.files.clone(),
            inputs::unknown_variables(),
        ),
    };
    let warnings: String = unknown
        .iter()
        .map(|variable| format!("warning: {variable}\n"))
        .collect();
    output::data(&(warnings + &verdict(&problems, &files)))?;
    Ok(success_or(Exit::Failed, problems.is_empty()))
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
        (0, true) => text.push_str("no configuration file: the defaults apply\n"),
        (_, true) => {}
        (_, false) => text.push_str(&format!("fine: {}\n", fine.join(", "))),
    }
    text
}

#[cfg(test)]
mod tests {
    use gua_render::schemas::named;
    use gua_settings::describe::CONFIG;
    use gua_test::schema::assert_published;

    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let (name, schema) = named::<ConfigDocument<'_>>(CONFIG);
        assert_published(name, &pretty(&schema));
    }
}
