//! Command-line interface of `gua`, declared with clap: one file per group of commands.
//!
//! The doc comments of these types are the help texts; their sections `# Notes` and `# Examples` are at the end of the help. An
//! argument that overrides a setting has the setting's name as its id, such as `history.db`. Nothing runs here: `dispatch`
//! executes the parsed command.

mod account;
mod board;
mod collect;
mod examples;
mod jobs;
mod keep;
mod look;
mod many_hosts;
mod report;

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, ColorChoice, CommandFactory as _, FromArgMatches, Parser, Subcommand};
use gua_settings::{ENTRIES, FlagValue};

pub use self::account::*;
pub use self::board::*;
pub use self::collect::*;
pub(crate) use self::examples::at_the_end;
pub use self::jobs::*;
pub use self::keep::*;
pub use self::look::*;
pub use self::many_hosts::*;
pub use self::report::*;

/// Groups of commands in `gua --help`. A test checks that every visible command is in exactly one group.
pub const GROUPS: &[(&str, &str)] = &[
    ("Look", "list available top me explain"),
    (
        "Collect",
        "doctor verify daemon start status stop service metrics",
    ),
    ("Jobs", "run runs phase summarize claim keep nudge"),
    ("Report", "report plot statement export import"),
    ("Account", "quota csv alert"),
    (
        "Many hosts",
        "serve enroll unenroll sync-once sync-archive board",
    ),
    ("Keep", "db config demo bench completions version help"),
];

#[derive(Debug, Parser)]
#[command(
    name = "gua",
    version,
    about = "Record and report who holds which GPU, since when, and whether it is used.",
    infer_long_args = true,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = WIDEST,
    disable_help_subcommand = true,
    after_help = "Start with `gua doctor`: it checks this host and changes nothing.\n\
                  `gua help COMMAND` explains a command and shows examples."
)]
pub struct Cli {
    /// Use of color. By default, color is used on a terminal unless `NO_COLOR` is set, and elsewhere if `FORCE_COLOR`
    /// is set.
    #[arg(long, global = true, display_order = 900, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    List(ListArgs),

    Available(AvailableArgs),

    Explain(ExplainArgs),

    Top(TopArgs),

    Me(MeArgs),

    Doctor(DoctorArgs),
    Verify(VerifyArgs),

    Daemon(DaemonArgs),

    Start(StartArgs),

    /// Show whether a background daemon is running, and its state.
    ///
    /// # Examples
    ///
    /// - `gua status`
    Status(FileArgs),

    /// Stop the background daemon.
    ///
    /// Also stops a collector that was started by the Python tool, but no other process.
    ///
    /// # Examples
    ///
    /// - `gua stop`
    Stop(FileArgs),

    Metrics(MetricsArgs),

    /// Install and manage the collector as a systemd service.
    ///
    /// # Notes
    ///
    /// For root, the default is a system service; for other users, a user service. --system and --user choose explicitly.
    ///
    /// # Examples
    ///
    /// - `gua service install`: start collecting now and after every boot
    /// - `gua service install --print`: print the unit without changing anything
    /// - `gua service status`: show whether it is installed and running
    /// - `gua service uninstall`: stop and remove it; the history is kept
    #[command(subcommand)]
    Service(ServiceCommand),

    /// List and release leases on GPUs.
    ///
    /// # Notes
    ///
    /// `gua available --claim 10m` and `gua run --claim N` create leases.
    ///
    /// # Examples
    ///
    /// - `gua claim list`: show leased GPUs, their holders and the queue
    /// - `gua claim release 1c9d03fe`: release the GPUs of one claim
    /// - `gua claim release --all-mine`: release all of your claims
    #[command(subcommand)]
    Claim(ClaimCommand),

    Keep(KeepArgs),

    Nudge(NudgeArgs),

    Run(RunArgs),

    /// List, show and compare runs recorded by `gua run`.
    ///
    /// # Notes
    ///
    /// `gua run` records runs; a running collector adds them to the history.
    ///
    /// # Examples
    ///
    /// - `gua runs list`: list the last 20 runs of all users on this host
    /// - `gua runs show last`: show what the most recent run used
    /// - `gua runs compare A B`: show two runs side by side
    #[command(subcommand)]
    Runs(RunsCommand),

    Phase(PhaseArgs),

    Summarize(SummarizeArgs),

    Report(ReportArgs),

    Plot(PlotArgs),

    Statement(StatementArgs),

    Export(ExportArgs),

    Import(ImportArgs),

    /// Set limits on GPU use and show how much of them is used.
    ///
    /// # Notes
    ///
    /// Limits are settings: `set` and `remove` edit the configuration file and keep its comments.
    ///
    /// Limits are not enforced by default. `gua available --respect-quota` applies them, and scripts can run
    /// `gua quota check`.
    ///
    /// # Examples
    ///
    /// - `gua quota set --everyone --idle-held 10h --per week`
    /// - `gua quota set --user ada --charged 200h --per month`
    /// - `gua quota show`: show used, remaining and forecast amounts
    /// - `gua quota check || echo over`: for cron: exit with 1 if anyone is over a limit
    #[command(subcommand)]
    Quota(QuotaCommand),

    /// Write daily CSV files in the format of gpu_stats.
    ///
    /// # Notes
    ///
    /// The daemon can write these files too: `gua daemon --csv-dir ~/gpu_stats`.
    ///
    /// `gua import --gpu-stats DIR` imports existing files into the history.
    ///
    /// # Examples
    ///
    /// - `gua csv sample`: write one sample to ~/gpu_stats now
    /// - `gua csv install`: write one every 5 minutes, without root or a daemon
    /// - `gua csv uninstall`: stop the timer; the files are kept
    #[command(subcommand)]
    Csv(CsvCommand),

    /// Show and test the alerts that the daemon sends, and list past messages.
    ///
    /// # Notes
    ///
    /// Alerts are `[[alert]]` tables of the configuration: idle-held GPUs, quotas, faults, lost GPUs and gaps, sent to Slack,
    /// Teams, Mattermost, ntfy, another webhook, a command, mail or terminals. See docs/alerts.md.
    ///
    /// # Examples
    ///
    /// - `gua alert list`: list the alerts and problems with their destinations
    /// - `gua alert test`: send a test message of every alert
    /// - `gua alert history`: show what was sent
    #[command(subcommand)]
    Alert(AlertCommand),

    Enroll(EnrollArgs),

    /// Remove this host's enrolment and its secret.
    ///
    /// The board is not contacted and keeps its data. Remove the host on the board as well to revoke its token.
    ///
    /// # Examples
    ///
    /// - `gua unenroll`
    Unenroll(EnrolmentArgs),

    SyncOnce(SyncOnceArgs),

    SyncArchive(SyncArchiveArgs),

    Serve(ServeArgs),

    /// Run a board that shows the GPUs of many hosts.
    ///
    /// # Examples
    ///
    /// - `gua board serve`: serve on http://127.0.0.1:8080
    /// - `gua board enroll-token --name lab-a100`: print a token for `gua enroll`
    /// - `gua board backup /backup/board.db`: copy the data while it serves
    #[command(subcommand)]
    Board(BoardCommand),

    /// Check, copy and maintain the history file.
    ///
    /// # Examples
    ///
    /// - `gua db check`: check the file and compare its totals with its ticks
    /// - `gua db stats`: show how much space each table uses
    /// - `gua db backup copy.db`: copy the file, even while a collector is writing
    /// - `gua db forget ada`: erase a user's identity
    #[command(subcommand)]
    Db(DbCommand),

    /// Show, check and explain the configuration.
    ///
    /// # Notes
    ///
    /// Precedence, highest first: flags, environment variables (GUA_*), ~/.gua/config.toml, /etc/gua/config.toml.
    /// GUA_CONFIG replaces ~/.gua/config.toml with another file.
    ///
    /// # Examples
    ///
    /// - `gua config check`: report every error with its line number
    /// - `gua config show`: print the effective settings and their sources
    /// - `mkdir -p ~/.gua && gua config default > ~/.gua/config.toml`: start from the commented defaults
    #[command(subcommand)]
    Config(ConfigCommand),

    Demo(DemoArgs),

    Bench(BenchArgs),

    Completions(CompletionsArgs),

    /// Print the version number.
    ///
    /// # Examples
    ///
    /// - `gua version`
    Version,

    /// Show help for gua or one of its commands.
    ///
    /// # Examples
    ///
    /// - `gua help`
    /// - `gua help doctor`
    /// - `gua help config check`
    Help(HelpArgs),

    /// Print or write the manual pages.
    #[command(hide = true)]
    Man(ManArgs),
}

/// Parses a value of a library's type by its name.
fn one_of<T: Copy + Send + Sync>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    named(values.iter().map(move |value| (name(*value), *value)))
}

/// Returns a parser for a library's type, which accepts these names.
fn named<T: Copy + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<(&str, T)> = values.into_iter().collect();
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names).map(move |text| {
        let found = values.iter().find(|(name, _)| *name == text);
        found.expect("the parser accepts these names only").1
    })
}

/// Maximum width of help in columns, whatever the width of the terminal.
const WIDEST: usize = 100;

/// Parsed arguments.
#[derive(Debug)]
pub struct Parsed<T> {
    pub args: T,
    /// Arguments that override settings.
    pub flags: Vec<FlagValue>,
    /// The command as messages name it, such as `gua config check`.
    pub name: String,
}

/// Parses arguments, including the program name.
pub fn parse<T: FromArgMatches>(
    command: clap::Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Parsed<T>, clap::Error> {
    // A repeated flag takes its last value, so that an alias with flags can be overridden.
    let mut command = command.args_override_self(true);
    let matches = command.try_get_matches_from_mut(arguments)?;
    let args = T::from_arg_matches(&matches)?;
    let mut name = command.get_name().to_owned();
    let (mut flags, mut command, mut matches) = (Vec::new(), &command, &matches);
    loop {
        flags.extend(command.get_arguments().filter_map(|arg| flag(arg, matches)));
        let Some((below, matched)) = matches.subcommand() else {
            break;
        };
        let Some(found) = command.find_subcommand(below) else {
            break;
        };
        // The messages of `gua service` name no subcommand.
        if command.get_name() != "service" {
            name = format!("{name} {below}");
        }
        (command, matches) = (found, matched);
    }
    Ok(Parsed { args, flags, name })
}

/// The setting that an argument overrides, if it is given or has a default.
fn flag(arg: &clap::Arg, matches: &ArgMatches) -> Option<FlagValue> {
    let id = arg.get_id().as_str();
    let mut entries = ENTRIES.iter();
    let entry = entries.find(|entry| id == format!("{}.{}", entry.section, entry.key))?;
    match matches.value_source(id)? {
        ValueSource::CommandLine => {}
        _ if arg.get_action().takes_values() => {}
        _ => return None,
    }
    let value = matches.get_raw(id)?.next()?;
    let flag = format!("--{}", arg.get_long()?);
    FlagValue::of(flag, entry.section, entry.key, Some(value))
}

/// The known name that a misspelled one probably means, as the end of an error message.
pub fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let near = gua_settings::nearest(name, known);
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// The whole command tree, with the commands listed in their groups.
pub fn tree() -> clap::Command {
    let needs_one = |command: &clap::Command| {
        command.has_subcommands() && !command.is_args_conflicts_with_subcommands_set()
    };
    let tree = at_the_end(Cli::command()).mut_subcommands(|command| match needs_one(&command) {
        true => command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .disable_help_subcommand(true),
        false => command,
    });
    let header = tree.get_styles().get_header();
    let listing = listing(&tree);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listing}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    tree.help_template(template)
}

/// List of the commands by group. clap formats the lines, so that they wrap at the terminal's width like other help.
fn listing(tree: &clap::Command) -> String {
    let names = || GROUPS.iter().flat_map(|(_, names)| names.split(' '));
    let mut plain = clap::Command::new("gua")
        .help_template("{subcommands}")
        .styles(tree.get_styles().clone())
        .max_term_width(WIDEST)
        .disable_help_subcommand(true)
        .subcommands(names().enumerate().map(|(place, name)| {
            let about = tree
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            clap::Command::new(name)
                .about(about.cloned().unwrap_or_default())
                .display_order(place)
        }));
    let laid_out = plain.render_help().ansi().to_string();
    let mut lines = laid_out
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();

    let header = tree.get_styles().get_header();
    let mut listing = String::new();
    for (group, names) in GROUPS {
        listing.push_str(&format!("{header}{group}:{header:#}\n"));
        for _ in names.split(' ') {
            // The first line of a command is indented by two columns, continuation lines by more.
            let mut first = true;
            while let Some(line) = lines.next_if(|line| first || line.starts_with("   ")) {
                listing.push_str(&format!("{line}\n"));
                first = false;
            }
        }
        listing.push('\n');
    }
    listing
}

/// Commands that help, completions and manual pages show.
pub fn visible_commands(tree: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    tree.get_subcommands()
        .filter(|command| !command.is_hide_set())
}

/// Command tree after `build`, which fills in derived names.
pub fn built() -> clap::Command {
    let mut tree = tree();
    tree.build();
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let tree = tree();
        let mut visible: Vec<&str> = visible_commands(&tree)
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.split(' '))
            .collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }

    #[test]
    fn the_declarations_contradict_nothing() {
        tree().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_an_example_of_at_most_80_columns() {
        fn check(command: &clap::Command) {
            for below in visible_commands(command) {
                let text = below
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let name = below.get_name();
                let examples = text.lines().skip_while(|line| !line.starts_with("Example"));
                let widths: Vec<usize> = examples.map(|line| line.chars().count()).collect();
                assert!(!widths.is_empty(), "`{name}` has no example");
                assert!(widths.iter().all(|width| *width <= 80), "`{name}`: {text}");
                check(below);
            }
        }
        check(&tree());
    }
}
