//! A simulated `libnvidia-ml.so.1`.
//!
//! As a shared library it exports the functions of NVML and plays a scenario file. As a Rust library it offers what
//! tests and demos need: the scenario types, the path of the shared library, and installing it as an older driver. It
//! never touches a real driver or a real GPU.

#[expect(
    non_snake_case,
    unsafe_code,
    reason = "fields have the header's names; exporting a name is an unsafe attribute, and there is no unsafe block in it"
)]
mod api;
mod call;
mod clock;
mod code;
pub mod driver;
mod foreign;
mod layout;
mod line;
mod pci;
pub mod scenario;
mod source;
mod state;
mod world;

use std::io;
use std::path::{Path, PathBuf};

pub use call::Function;
pub use code::Code;
pub use layout::{RecordShape, records};
pub use source::{BESIDE, VARIABLE};

/// Returns every function that the shared library exports.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    api::ALL.iter().copied().flatten()
}

/// Returns the path of the shared library that cargo built together with the running program, which is a test, a bench,
/// an example or a binary of this workspace.
#[expect(
    clippy::disallowed_methods,
    reason = "where a documentation test's libraries are, cargo says in the environment alone"
)]
pub fn library_path() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let places = program.ancestors().skip(1).take(3).map(Path::to_owned);
    // A documentation test runs from its own folder; cargo passes the build folder in this variable.
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let places: Vec<PathBuf> = places.chain(std::env::split_paths(&named)).collect();
    let candidates = places.iter();
    let candidates = candidates.flat_map(|place| [place.join(FILE), place.join("deps").join(FILE)]);
    let newest = candidates
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified);
    newest.map(|(_, path)| path).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{FILE} is not beside `{}`: build it with `cargo build -p nvml-sim`",
                program.display()
            ),
        )
    })
}

const FILE: &str = "libnvml_sim.so";

/// Compiles the README's Rust.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
