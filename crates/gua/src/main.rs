//! Hands the arguments over to the library. Nothing else happens here.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().collect::<Vec<_>>();
    gua::dispatch::main(&arguments)
}
