//! `gua config check`: every mistake, with its place.

use std::path::Path;
use std::process::ExitCode;

use super::inputs::{self, Role};
use super::kind::Home;
use super::{Candidate, FileSeen, FileState, Inputs, Loaded, Problem, Settings, file};
use crate::failure::Exit;
use crate::output;

/// Checks one file, or all that is in use, and says so.
pub fn run(path: Option<&Path>) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::of_this_process();
    let (problems, files, unknown) = match path {
        Some(path) => {
            let (problems, files) = one(path, &inputs);
            (problems, files, Vec::new())
        }
        None => {
            let Loaded {
                problems, files, ..
            } = Loaded::from(&inputs, &[]);
            (problems, files, inputs::unknown_variables())
        }
    };
    let warnings: String = unknown
        .iter()
        .map(|told| format!("warning: {told}\n"))
        .collect();
    output::data(&(warnings + &verdict(&problems, &files)))?;
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

fn one(path: &Path, inputs: &Inputs) -> (Vec<Problem>, Vec<FileSeen>) {
    let home = Home(inputs.home.clone());
    let candidate = Candidate {
        path: path.to_owned(),
        role: Role::Named,
    };
    let problems = match candidate.read() {
        Ok(bytes) => file::apply(
            &mut Settings::defaults(&home),
            &bytes.unwrap_or_default(),
            path,
            &home,
        ),
        Err(problem) => vec![problem],
    };
    let state = if problems.is_empty() {
        FileState::Fine
    } else {
        FileState::Faulty
    };
    (
        problems,
        vec![FileSeen {
            path: path.to_owned(),
            state,
        }],
    )
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
