//! Names of the replaced tools under which this program can be called. Commands that are not implemented are reported.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::commands::demo;
use crate::dispatch::VERSION;
use crate::failure::{self, Exit};
use crate::{daemon, report};
use crate::{nvgpu, output};

/// Tool name under which the program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Gua,
    GpuUsageAudit,
    Nvgpu,
    Nvl,
}

impl Name {
    /// Determines the name from the path with which the program was started.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        match program.file_name().and_then(|name| name.to_str()) {
            Some("gpu-usage-audit") => Name::GpuUsageAudit,
            Some("nvgpu") => Name::Nvgpu,
            Some("nvl") => Name::Nvl,
            _ => Name::Gua,
        }
    }
}

const AUDIT_USAGE: &str = "\
usage: gpu-usage-audit [-h] [--version] COMMAND

gua under the name of the tool that it replaces.

Commands:
  daemon   collect in the foreground
  report   say who held which GPU, and whether it was used
  demo     record made-up telemetry and report it
  version  print the version number and nothing else
  help     print this text

`gua doctor` looks at this machine.
";

/// Runs the program under one of the other names. `arguments` do not include the program name.
#[must_use]
pub fn run(name: Name, arguments: &[OsString]) -> ExitCode {
    match name {
        Name::GpuUsageAudit => audit(arguments),
        Name::Nvl => nvgpu::nvl(arguments),
        Name::Nvgpu | Name::Gua => nvgpu::nvgpu(arguments),
    }
}

fn audit(arguments: &[OsString]) -> ExitCode {
    let command = arguments
        .first()
        .map(|argument| argument.to_string_lossy().into_owned());
    let told = match command.as_deref() {
        Some("version" | "--version") => output::data(&format!("{VERSION}\n")),
        Some("help" | "-h" | "--help") => output::data(AUDIT_USAGE),
        Some("daemon") => return daemon::audit(arguments.get(1..).unwrap_or_default()),
        Some("report") => return report::audit(arguments.get(1..).unwrap_or_default()),
        Some("demo") => return demo::audit(arguments.get(1..).unwrap_or_default()),
        Some(unknown) => {
            output::talk(&format!(
                "{AUDIT_USAGE}\ngpu-usage-audit: unknown command `{}`\n",
                unknown.escape_debug()
            ));
            return Exit::Usage.into();
        }
        None => {
            output::talk(AUDIT_USAGE);
            return Exit::Usage.into();
        }
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report("gpu-usage-audit", &error),
    }
}
