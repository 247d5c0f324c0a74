//! Runs the real binary with its own home directory and none of the caller's environment variables.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use gua_test::Ended;
use tempfile::TempDir;

/// A home directory and the environment variables of the program.
pub(crate) struct Program {
    home: TempDir,
    variables: Vec<(String, String)>,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().expect("a temporary home"),
            variables: Vec::new(),
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file below the home directory and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        let directory = path.parent().expect("the path is below the home directory");
        std::fs::create_dir_all(directory).expect("a directory below the home");
        std::fs::write(&path, content).expect("a file below the home");
        path
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command, ready for arguments.
    pub(crate) fn command(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/bin:/bin")
            .env("GUA_TEST_SYSTEM_CONFIG", self.home().join("system.toml"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.home());
        command
    }

    pub(crate) fn gua<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ended {
        self.run(Path::new(crate::GUA), arguments)
    }

    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        binary: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Ended {
        let output = self.command(binary).args(arguments).output();
        output.unwrap().into()
    }
}

/// Runs `gua` with arguments separated by spaces, in an empty home directory.
pub(crate) fn gua(line: &str) -> Ended {
    Program::new().gua(line.split_whitespace())
}
