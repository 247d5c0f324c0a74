//! Entry point: passes the arguments to the library.

use std::process::ExitCode;

use gua_probe::process::ignored::remember;

/// The loader calls this before Rust's runtime changes the action of SIGPIPE. It is here and not in the library, so that
/// a program that uses the library is not affected.
#[expect(unsafe_code, reason = "the loader calls the functions in this section")]
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_IGNORED_SIGNALS: extern "C" fn() = remember;

fn main() -> ExitCode {
    let arguments = std::env::args_os().collect::<Vec<_>>();
    gua::dispatch::main(&arguments)
}
