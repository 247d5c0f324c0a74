//! `gua phase`: sends a mark to the `gua run` that watches this process.

use gua_run::{DESCRIPTOR_VARIABLE, MAX_MARK_LENGTH, Mark, MarkPipe, PIPE_VARIABLE};
use serde_json::Map;

use crate::commands::prelude::*;

/// Sends the marks. Only a usage error fails, because a job must not fail because of a mark.
pub fn run(args: &PhaseArgs, context: &Context) -> anyhow::Result<()> {
    let names = args.name.iter().chain(&args.event);
    if names.into_iter().any(|name| name.trim().is_empty()) {
        bail!(Failure::usage("a phase or an event needs a name"));
    }
    let lines: Vec<String> = marks(args).iter().map(|mark| mark.line() + "\n").collect();
    if lines.iter().any(|line| line.len() > MAX_MARK_LENGTH) {
        bail!(Failure::usage("the mark is too long"));
    }
    let inputs = &context.loaded.inputs;
    let (path, descriptor) = (
        inputs.variable(PIPE_VARIABLE),
        inputs.variable(DESCRIPTOR_VARIABLE),
    );
    let problem = match MarkPipe::open(path, descriptor) {
        Some(mut pipe) => {
            let sent = lines.iter().try_for_each(|line| pipe.send(line));
            sent.err().map(|error| {
                format!(
                    "the surrounding `gua run` does not read marks; the mark is dropped: {error}"
                )
            })
        }
        None => Some("not inside `gua run`; the mark is dropped".to_owned()),
    };
    if let Some(problem) = problem.filter(|_| !args.quiet) {
        output::eprint(&format!("gua phase: {problem}\n"));
    }
    Ok(())
}

fn marks(args: &PhaseArgs) -> Vec<Mark> {
    let values: Map<_, _> = args.set.iter().cloned().collect();
    if let Some(name) = &args.event {
        return vec![Mark::Event {
            name: name.clone(),
            data: values,
        }];
    }
    let phase = args.name.clone().map(Mark::Phase);
    let set = (!values.is_empty()).then_some(Mark::Set(values));
    phase.into_iter().chain(set).collect()
}
