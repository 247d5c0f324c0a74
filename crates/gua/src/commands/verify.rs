//! `gua verify`: compares the readings of gua with those of `nvidia-smi`. The comparison is that of `gua_probe::verify`.

use gua_probe::doctor::program;
use gua_probe::verify::{Pace, VerifyError, verify};

use crate::commands::prelude::*;
use crate::context::sample;

pub fn run(args: &VerifyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let path = context.loaded.inputs.variable("PATH");
    let program = path.and_then(|path| program::find(path, "nvidia-smi"));
    let program = program.ok_or_else(|| {
        Failure::failed(VerifyError::NotFound.to_string())
            .hint("nvidia-smi is a part of the driver; this command compares with it")
    })?;
    let pace = Pace {
        length: args.length,
        interval: args.interval,
    };
    let mut reader = context.reader();
    let found = verify(&program, pace, || sample(&mut reader))?;
    output::data(&found.text(VERSION))?;
    Ok(success_or(Exit::Failed, found.agrees()))
}
