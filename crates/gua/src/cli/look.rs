//! Commands of the group Look, which show the current state of the GPUs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use gua_model::pick::{FreeRule, Order};
use gua_model::{Bytes, Percent};
use gua_wire::ServerUrl;

use super::{TableFormat, one_of};

/// List all GPUs with their holders and states.
///
/// One line for each process that holds a GPU, and one for each GPU without any: the state, the use, the health, and who
/// holds how much of its memory. With a running daemon, the list also shows how long each GPU has been in its state.
///
/// # Notes
///
/// A GPU that `gua available` offers is called free. The column health shows uncorrected memory errors (ECC), pending or
/// failed memory repairs (remap, retire), and clocks lowered by heat (hot) or hardware (slowed).
///
/// The column command shows command lines, including those of other users; it exists only in the table.
///
/// JSON (docs/schema/gua.list.v1.json) and CSV contain the short name of the program. CSV has one line per holder, and one
/// for each GPU without holders.
///
/// # Examples
///
/// - `gua list`: print the table
/// - `gua list --watch`: refresh every 2 s until Ctrl-C
/// - `gua list --board https://board.example.com`
/// - `gua list --order -free-memory`: GPU with the most free memory first
/// - `gua list --json | jq '.gpus[] | select(.state == "idle-held")'`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Do not truncate: show the command lines of all holders (up to 4096 bytes each) and the UUIDs.
    #[arg(long)]
    pub wide: bool,

    /// Sort keys, comma-separated: power, free-memory, temperature, index; a - prefix reverses a key.
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true)]
    pub order: Option<Order>,

    /// Refresh at this interval until interrupted [default: 2s].
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = gua_model::duration::parse)]
    pub watch: Option<Duration>,

    /// List the GPUs of all hosts of this board instead of those of this host.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = ServerUrl::parse, conflicts_with_all = ["order", "watch", "history.db"])]
    pub board: Option<ServerUrl>,

    #[command(flatten)]
    pub format: FormatArgs,

    #[command(flatten)]
    pub history: HistoryArgs,
}

/// History of a command.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// History file [default: the running daemon's, else /var/lib/gua/gua.db, else ~/.gua/gua.db].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// Output format, and the history to read.
#[derive(Debug, Args)]
pub struct ListingArgs {
    #[command(flatten)]
    pub format: FormatArgs,

    #[command(flatten)]
    pub history: HistoryArgs,
}

/// Exit code of a report on a history that does not balance.
#[derive(Debug, Args)]
pub struct StrictArgs {
    /// Exit with 1 if a GPU is left out because its stored hours do not add up.
    #[arg(long)]
    pub strict: bool,
}

/// Output format of a listing.
#[derive(Debug, Args)]
pub struct FormatArgs {
    /// Output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: TableFormat,

    /// Same as --format json.
    #[arg(long, conflicts_with_all = ["format", "csv"])]
    pub json: bool,

    /// Same as --format csv.
    #[arg(long, conflicts_with = "format")]
    pub csv: bool,
}

impl FormatArgs {
    pub fn wanted(&self) -> TableFormat {
        match (self.json, self.csv) {
            (true, _) => TableFormat::Json,
            (_, true) => TableFormat::Csv,
            _ => self.format,
        }
    }
}

/// Print the indexes of free GPUs for CUDA_VISIBLE_DEVICES.
///
/// A GPU is free if at most 20 % of its memory is used, no process holds it and it is not busy; with a running daemon,
/// it must also have been idle for the last minute. GPUs with a fault and leased GPUs are excluded. The holders of the other GPUs are printed
/// to stderr. If no GPU is free, nothing is printed and the exit code is 3.
///
/// # Notes
///
/// Indexes are those of the driver: set CUDA_DEVICE_ORDER=PCI_BUS_ID so that CUDA uses the same order, or use --uuid.
///
/// A lease belongs to the process that called gua and ends with it. This is the shell, also inside $(); in a pipeline or a
/// subshell it is the subshell, so pass the script with --for $$. `gua claim list` lists leases; see docs/claims.md.
///
/// MIG instances have no indexes; --uuid lists them after the whole GPUs.
///
/// An empty CUDA_VISIBLE_DEVICES hides all GPUs; `|| exit` stops a script in this case.
///
/// # Examples
///
/// - `CUDA_VISIBLE_DEVICES=$(gua available -l 1) || exit; export CUDA_VISIBLE_DEVICES`
/// - `CUDA_VISIBLE_DEVICES=$(gua available --claim 10m --wait 1h) || exit; export CUDA_VISIBLE_DEVICES`
/// - `gua available --notify &`: notify you when a GPU is free
/// - `gua available --count 2 --order -free-memory`: the two GPUs with the most free memory
/// - `gua available --gpu-model a100 --min-free-memory 40GB --uuid`
/// - `gua available --account-as-free "$USER"`: ignore your own processes
/// - `gua available --board https://board.example.com --min-free-memory 40GB`
/// - `gua available --unhealthy`: offer GPUs with memory errors too
/// - `gua available --csv`: every GPU, and why it is not free
/// - `gua available --rule nvgpu`: check only memory, like nvgpu
#[derive(Debug, Args)]
pub struct AvailableArgs {
    /// Print at most N GPUs; 0 means all.
    #[arg(short, long, value_name = "N")]
    pub limit: Option<usize>,

    /// Print exactly N GPUs, or none.
    #[arg(long, value_name = "N", conflicts_with = "limit", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,

    /// Maximum memory use of a free GPU, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "20")]
    pub max_used_percent: Percent,

    /// Minimum free memory, such as 20GB or 500MB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub min_free_memory: Option<Bytes>,

    /// Maximum utilisation of a free GPU, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_util: Option<Percent>,

    /// Only GPUs whose name contains TEXT (case-insensitive). If repeated, one match is enough.
    #[arg(long, value_name = "TEXT", action = ArgAction::Append)]
    pub gpu_model: Vec<String>,

    /// Print UUIDs, and include MIG instances.
    #[arg(long)]
    pub uuid: bool,

    /// Sort keys, comma-separated: power, free-memory, temperature, index; a - prefix reverses a key.
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true)]
    pub order: Option<Order>,

    /// Ignore the processes of this user (name or UID). Can be repeated.
    #[arg(long, value_name = "USER", action = ArgAction::Append)]
    pub account_as_free: Vec<String>,

    /// Include GPUs with a fault: memory errors, pending memory repairs, or clocks lowered by heat or hardware.
    #[arg(long)]
    pub unhealthy: bool,

    /// Minimum idle time of a free GPU; checked only if a daemon is running.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, default_value = "60s")]
    pub free_for: Duration,

    /// Lease the GPUs for this duration, so that gua does not offer them to others. Leases one GPU unless -l or --count
    /// is given.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse)]
    pub claim: Option<Duration>,

    /// Process to which the lease is bound; the lease ends with it [default: the process that called gua].
    #[arg(long = "for", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub for_pid: Option<u32>,

    /// Wait for free GPUs, first come, first served, for at most TIMEOUT [default: no limit]. Leases them for one
    /// minute unless --claim is given.
    #[arg(long, value_name = "TIMEOUT", value_parser = gua_model::duration::parse, num_args = 0..=1)]
    pub wait: Option<Option<Duration>>,

    /// Wait as --wait does, and notify you when GPUs are free: with the bell of the terminal, on the desktop (notify-send), and through
    /// your own `[[alert]]` tables with "free" (docs/alerts.md). Leases them for one minute unless --claim is given.
    #[arg(long)]
    pub notify: bool,

    /// Exit with 3 if the user is over a limit of `gua quota`, even if GPUs are free.
    #[arg(long)]
    pub respect_quota: bool,

    /// Rule that defines a free GPU; nvgpu checks only memory and exits with 0 even if no GPU is free.
    #[arg(long, value_name = "RULE", value_parser = one_of(&FreeRule::ALL, FreeRule::as_str), default_value = "gua")]
    pub rule: FreeRule,

    #[command(flatten)]
    pub format: FormatArgs,

    /// Search all hosts of this board instead of this host. Prints one line for each free GPU, such as lab-a100:3.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = ServerUrl::parse, conflicts_with_all = ["order", "account_as_free", "free_for", "claim", "for_pid", "wait", "notify", "respect_quota", "rule", "unhealthy", "max_used_percent", "history.db"])]
    pub board: Option<ServerUrl>,

    /// Do not print the holders of the other GPUs.
    #[arg(short, long)]
    pub quiet: bool,

    #[command(flatten)]
    pub history: HistoryArgs,
}

impl AvailableArgs {
    /// Whether to wait, and for how long.
    pub fn waits(&self) -> Option<Option<Duration>> {
        self.wait.or(self.notify.then_some(None))
    }

    /// The exact number of GPUs that is wanted, if it is given.
    pub fn exactly(&self) -> Option<usize> {
        let count = self.count?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

/// Returns the arguments of a command that is called without flags. Each must be optional or have a default.
pub fn without_flags<T: Args>() -> T {
    let command = T::augment_args(clap::Command::new("gua"));
    let matches = command.try_get_matches_from(["gua"]);
    let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
    parsed.expect("every argument is optional or has a valid default")
}

/// Explain the state of a GPU: the readings and the rule that applies.
///
/// Samples the GPU now. With --at, it shows from the history which tick covers the given time and how that time was
/// counted, or why there is no sample.
///
/// # Notes
///
/// A GPU is given by its index, its UUID or a UUID prefix; a MIG instance by its UUID. docs/states.md lists the states.
///
/// # Examples
///
/// - `gua explain 0`: explain the current state of GPU 0
/// - `gua explain 0 --at 2h`: explain the state two hours ago
/// - `gua explain GPU-5f3a --at 2026-11-01T03:00 --tz UTC`
/// - `gua explain 0 --json | jq .state`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// GPU: its index, its UUID or a UUID prefix.
    #[arg(value_name = "GPU")]
    pub gpu: String,

    /// Time: a duration before now such as 2h, or a date and time such as 2026-11-01T03:00 [default: now].
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,

    /// Time zone of --at and of displayed times, such as UTC or Asia/Seoul [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub history: HistoryArgs,
}

/// Command line under the name `nvgpu`. Its help texts are part of that tool's interface and keep their wording.
#[derive(Debug, Parser)]
#[command(
    name = "nvgpu",
    version,
    about = "NVIDIA GPU tools: gua under the name of the tool that it replaces.",
    infer_long_args = true,
    subcommand_required = true,
    max_term_width = 100,
    after_help = "`gua help list` and `gua help available` describe all options."
)]
pub struct NvgpuArgs {
    #[command(subcommand)]
    pub command: NvgpuCommand,
}

#[derive(Debug, Subcommand)]
pub enum NvgpuCommand {
    /// Print the numbers of the GPUs of which at most 20 % of the memory is used.
    Available {
        /// Max number of GPUs; 0 is all of them.
        #[arg(short, long, value_name = "LIMIT", allow_negative_numbers = true)]
        limit: Option<isize>,
    },
    /// Show the table of GPUs.
    List,
    /// Print the version number and nothing else.
    Version,
}

fn percent(text: &str) -> Result<Percent, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .and_then(Percent::new)
        .ok_or_else(|| "a whole number from 0 to 100 is expected".to_owned())
}

/// Parses a size with a unit. A megabyte is 1048576 bytes, as everywhere in gua.
fn size(text: &str) -> Result<Bytes, String> {
    let expected = || "write it like 500MB, 20GB or 1.5GB".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let mb_per_unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "m" | "mb" | "mib" => 1,
        "g" | "gb" | "gib" => 1024,
        "t" | "tb" | "tib" => 1024 * 1024,
        _ => return Err(expected()),
    };
    let digits = digits.trim_end();
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_short = |part: &str| {
        (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_short(whole) || !is_short(fraction) {
        return Err(expected());
    }
    let number = |part: &str| part.parse::<u64>().map_err(|_| expected());
    let unit = Bytes::PER_MB * mb_per_unit;
    let scale = 10u64.pow(u32::try_from(fraction.len()).map_err(|_| expected())?);
    let part = u128::from(unit) * u128::from(number(fraction)?) / u128::from(scale);
    let part = u64::try_from(part).map_err(|_| expected())?;
    Ok(Bytes(
        number(whole)?.saturating_mul(unit).saturating_add(part),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_their_unit() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(size(text).ok(), expected.map(Bytes), "{text}");
        };
        check("500MB", Some(500 << 20));
        check("20GB", Some(20 << 30));
        check("20 GiB", Some(20 << 30));
        check("1.5g", Some(3 << 29));
        check("2T", Some(2 << 40));
        for bad in [
            "20",
            "GB",
            "",
            "-1GB",
            "1e3MB",
            "1.GB",
            "1.2.3GB",
            "9999999GB",
            "20KB",
            "2üGB",
        ] {
            check(bad, None);
        }
    }
}

/// Show what you hold, what you used this week, and what you could release.
///
/// Your processes on the GPUs and for how long they have been idle, your hours and limits this week, your leases and your
/// place in the queue. With --motd, prints a log-in message: only what you could release, limits that you exceed, and your
/// place in the queue, and nothing if there is none of these. It uses the last recorded tick and never waits for the driver.
///
/// # Notes
///
/// JSON (docs/schema/gua.me.v1.json) has all parts; CSV has one line for each of your processes.
///
/// # Examples
///
/// - `gua me`
/// - `gua me --json | jq '.releasable[].command'`
/// - `echo 'gua me --motd' > /etc/profile.d/gua.sh`: show it at every log-in
#[derive(Debug, Args)]
pub struct MeArgs {
    /// Print a log-in message within TIMEOUT [default: 200ms]; silent if there is nothing to do.
    #[arg(long, value_name = "TIMEOUT", value_parser = gua_model::duration::parse, num_args = 0..=1, require_equals = true, default_missing_value = "200ms", conflicts_with_all = ["format", "json", "csv"])]
    pub motd: Option<Duration>,

    #[command(flatten)]
    pub format: FormatArgs,

    #[command(flatten)]
    pub history: HistoryArgs,
}

/// Show a live view of the GPUs and their holders.
///
/// For each GPU: utilisation, memory, power and temperature with their history, the state with its duration, and its
/// faults. Below: every process with its owner, its command line and its use of the host, or every user. The processes of
/// a job on several GPUs are one line. Press ? for the keys.
///
/// # Examples
///
/// - `gua top`: q quits, ? shows help
/// - `gua top --interval 200ms`: sample more often
/// - `gua top --readonly`: disable signals to processes
/// - `sudo gua top --act-as-admin`: signal processes of other users, which is logged
/// - `gua top --once`: print one frame as text, for a pipe or a mail
/// - `gua top --fake`: show simulated GPUs
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Sampling interval.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, default_value = "1s")]
    pub interval: Duration,

    /// Print one frame as text and exit. Needs no terminal.
    #[arg(long)]
    pub once: bool,

    /// Disable signals to processes.
    #[arg(long)]
    pub readonly: bool,

    /// Allow root to signal the processes of other users. Each such signal is written to the system's log.
    #[arg(long, conflicts_with_all = ["readonly", "fake", "once"])]
    pub act_as_admin: bool,

    /// Show the simulated GPUs of `gua demo` instead of those of this host.
    #[arg(long)]
    pub fake: bool,

    #[command(flatten)]
    pub history: HistoryArgs,
}
