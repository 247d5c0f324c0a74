//! Installs the simulated library, checks a scenario, or prints an example scenario. It does not simulate anything
//! itself.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario::Scenario;

const EXAMPLE: &str = include_str!("../../scenarios/lab.toml");

const HELP: &str = "\
A simulated NVIDIA driver library that plays a scenario file.

Usage:
  nvml-sim install DIR [--driver VERSION]   write DIR/libnvidia-ml.so.1; VERSION is latest, 390, 470, 535.54, ...
  nvml-sim check SCENARIO                   say whether the file is a scenario
  nvml-sim example                          print a documented scenario

Then: NVML_SIM_SCENARIO=FILE LD_LIBRARY_PATH=DIR program
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["install", directory] => install(directory, Generation::LATEST),
        ["install", directory, "--driver", version]
        | ["install", "--driver", version, directory] => match version.parse() {
            Ok(generation) => install(directory, generation),
            Err(error) => return misuse(&format!("{error}\n")),
        },
        ["check", scenario] => check(Path::new(scenario)),
        ["example"] => Ok(EXAMPLE.to_owned()),
        ["--help" | "-h" | "help"] => Ok(HELP.to_owned()),
        _ => return misuse(HELP),
    };
    match result {
        Ok(text) => {
            // Ignore a closed pipe: the reader wants no more output.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            say(&format!("error: {message}\n"));
            ExitCode::FAILURE
        }
    }
}

fn install(directory: &str, generation: Generation) -> Result<String, String> {
    let path = driver::install(directory, generation);
    let path = path.map_err(|error| format!("cannot install into `{directory}`: {error}"))?;
    Ok(format!("{}\n", path.display()))
}

fn check(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let scenario =
        Scenario::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!(
        "{}: {} GPUs, {} faults\n",
        path.display(),
        scenario.gpus.len(),
        scenario.faults.len()
    ))
}

fn misuse(text: &str) -> ExitCode {
    say(text);
    ExitCode::from(2)
}

fn say(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
