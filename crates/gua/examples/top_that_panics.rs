//! `gua top` with made-up GPUs and a thread that panics at its third sample: what a person sees when gua itself is broken.
//! The tests run it in a terminal.

use std::process::ExitCode;
use std::time::Duration;

use gua::cli::{HistoryArgs, TopArgs};
use gua::commands::top;
use gua::context::Context;
use gua::failure;
use gua_model::demo::{self, Script};
use gua_probe::clock;

fn main() -> ExitCode {
    let args = TopArgs {
        interval: Duration::from_millis(200),
        once: false,
        act_as_admin: false,
        readonly: true,
        fake: true,
        history: HistoryArgs { db: None },
    };
    let mut samples = 0;
    let samples = move || {
        samples += 1;
        assert!(samples < 3, "the third sample is one too many");
        let now = clock::now();
        Ok(demo::sample(
            Script::V1_8,
            samples,
            now,
            clock::since_boot(),
        ))
    };
    let context = match Context::load(&[]) {
        Ok(context) => context,
        Err(failed) => return failure::report("gua top", &failed.into()),
    };
    let done = top::watch(&args, &context, Box::new(samples));
    done.map_or_else(
        |error| failure::report("gua top", &error),
        |()| ExitCode::SUCCESS,
    )
}
