//! What can be typed. This file only declares; `dispatch` acts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueHint};

use crate::config::FlagValue;

/// The commands as `gua --help` groups them. A test holds that every command is in one group.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Collect", &["doctor"]),
    ("Keep", &["config", "completions", "version", "help"]),
];

#[derive(Debug, Parser)]
#[command(
    name = "gua",
    version,
    about = "Says who holds which GPU, since when, and whether it was used.",
    infer_long_args = true,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = crate::manual::WIDEST,
    disable_help_subcommand = true,
    after_help = "Begin with `gua doctor`: it looks at this machine and changes nothing.\n\
                  `gua help COMMAND` explains a command and shows examples."
)]
pub struct Cli {
    /// When to use colour. The default follows the terminal and `NO_COLOR`.
    #[arg(long, global = true, display_order = 900, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(DoctorArgs),

    /// Show, check and explain the configuration.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Flags win over the environment (GUA_*), that over ~/.gua/config.toml, that over\n\
                      /etc/gua/config.toml. GUA_CONFIG names another file instead of ~/.gua/config.toml.\n\n\
                      Examples:\n  \
                      gua config check  find every mistake, with its line\n  \
                      gua config show   what counts now, and where it came from\n  \
                      mkdir -p ~/.gua && gua config default > ~/.gua/config.toml\n                    \
                      start from the commented defaults"
    )]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },

    Completions(CompletionsArgs),

    /// Print the version number and nothing else.
    #[command(after_help = "Example:\n  gua version")]
    Version,

    /// Explain gua, or one of its commands.
    #[command(after_help = "Examples:\n  gua help\n  gua help doctor\n  gua help config check")]
    Help(HelpArgs),

    /// Print or write the manual pages.
    #[command(hide = true)]
    Man(ManArgs),
}

/// Look at this machine and say what gua can see, and what stands in its way.
///
/// Read-only: it changes nothing on the system and opens no history for writing.
#[derive(Debug, Args)]
#[command(
    after_help = "The output names local paths and GPU UUIDs: look at it before you share it.\n\n\
                        Examples:\n  \
                        gua doctor                        look at this machine\n  \
                        gua doctor --json                 the same for a program\n  \
                        gua doctor --sample > cards.json  one sample of every card, for a bug report\n  \
                        gua doctor --strict || exit 1     stop a script when a check fails"
)]
pub struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,

    /// The history file to look at [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Print one sample of every card as JSON, for a bug report.
    #[arg(long)]
    pub sample: bool,

    /// Exit 1 when a check has status error or the host is unsupported; warnings do not count.
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings that count now, each with its source.
    #[command(after_help = "The output is itself a valid configuration file.\n\n\
                            Examples:\n  gua config show\n  GUA_ACTIVE_UTIL=5 gua config show\n  gua config show --json")]
    Show {
        /// Print the settings as JSON.
        #[arg(long)]
        json: bool,
    },

    /// Check the configuration files and the environment; exit 1 if anything is wrong.
    #[command(after_help = "Examples:\n  gua config check\n  gua config check ./config.toml")]
    Check {
        /// Check this file alone, instead of the files and variables in use.
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        path: Option<PathBuf>,
    },

    /// Print a configuration file with every setting, its default and its meaning.
    #[command(
        after_help = "Example:\n  mkdir -p ~/.gua && gua config default > ~/.gua/config.toml"
    )]
    Default,

    /// Print the files that are looked at, in order, and whether they exist.
    #[command(after_help = "Example:\n  gua config path")]
    Path,
}

/// Print a script that completes gua's commands and flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        source <(gua completions bash)                              in this shell only\n  \
                        gua completions zsh > \"${fpath[1]}/_gua\"                    for good, in zsh\n  \
                        gua completions fish > ~/.config/fish/completions/gua.fish  for good, in fish")]
pub struct CompletionsArgs {
    /// The shell to write for.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// The command to explain, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page to print, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Write the pages of all commands into this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

impl Command {
    /// The flags of this command that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = match self {
            Command::Doctor(args) => args.db.as_ref(),
            _ => None,
        };
        db.map(|path| FlagValue {
            flag: "--db",
            section: "history",
            key: "db",
            value: OsString::from(path),
        })
        .into_iter()
        .collect()
    }

    /// The command as error messages name it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Command::Doctor(_) => "gua doctor",
            Command::Config { command } => match command {
                ConfigCommand::Show { .. } => "gua config show",
                ConfigCommand::Check { .. } => "gua config check",
                ConfigCommand::Default => "gua config default",
                ConfigCommand::Path => "gua config path",
            },
            Command::Completions(_) => "gua completions",
            Command::Version => "gua version",
            Command::Help(_) => "gua help",
            Command::Man(_) => "gua man",
        }
    }
}
