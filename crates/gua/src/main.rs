//! Entry point: passes the arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args_os().collect::<Vec<_>>();
    gua::dispatch::main(&arguments)
}
