//! What can be typed to look at the cards as they are now.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use gua_model::pick::Order;
use gua_model::{Bytes, Percent};

use super::TableFormat;

/// Show every card: who holds it, since when, and what it is doing.
///
/// [ ] nobody holds the card, [~] somebody does, [!] something is wrong: a holder that is gone or cannot be seen, a card
/// that works without one or cannot be read. With a running daemon it also says since when a card has been as it is.
#[derive(Debug, Args)]
#[command(
    after_help = "The column cmd shows command lines of other people's processes, in the table for people alone.\n\
                  JSON (docs/schema/gua.list.v1.json) and CSV carry the short name of the program. CSV has a line for each \
                  holder, and one for a card without any.\n\n\
                  Examples:\n  \
                  gua list                          the table\n  \
                  gua list --watch                  again every 2 s, until Ctrl-C\n  \
                  gua list --order -free-memory     the card with the most free memory first\n  \
                  gua list --json | jq '.gpus[] | select(.state == \"idle-held\")'"
)]
pub struct ListArgs {
    /// Cut nothing: whole command lines of all holders (4096 bytes each), and the UUIDs too.
    #[arg(long)]
    pub wide: bool,

    /// The order of the cards: power, free-memory, temperature, index; several with commas, a - before one turns it round.
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true)]
    pub order: Option<Order>,

    /// Look again and again [default: every 2s].
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = crate::duration::parse)]
    pub watch: Option<Duration>,

    #[command(flatten)]
    pub format: FormatArgs,

    /// The history that says since when [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// How a listing is printed.
#[derive(Debug, Args)]
pub struct FormatArgs {
    /// How to print it.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: TableFormat,

    /// The same as --format json.
    #[arg(long, conflicts_with_all = ["format", "csv"])]
    pub json: bool,

    /// The same as --format csv.
    #[arg(long, conflicts_with = "format")]
    pub csv: bool,
}

impl FormatArgs {
    #[must_use]
    pub fn wanted(&self) -> TableFormat {
        match (self.json, self.csv) {
            (true, _) => TableFormat::Json,
            (_, true) => TableFormat::Csv,
            _ => self.format,
        }
    }
}

/// Print the numbers of the cards that are free, for CUDA_VISIBLE_DEVICES.
///
/// A card is free when at most 20 % of its memory is used, nobody holds it and it is not at work; with a running daemon
/// also only when it was truly idle for the last minute. Cards that are leased are left out. stderr says who holds the
/// others. With none free it prints nothing and exits with 3.
#[derive(Debug, Args)]
#[command(
    after_help = "The numbers are the driver's: set CUDA_DEVICE_ORDER=PCI_BUS_ID, so that CUDA counts alike, or use --uuid.\n\
                  A lease is for the process that called gua, and ends with it: the shell, also inside $(). In a pipeline or a subshell \
                  that is the subshell; name the script then with --for $$. `gua claim list` shows leases, docs/claims.md explains.\n\
                  MIG instances have no numbers; --uuid offers them after the whole cards.\n\
                  An empty CUDA_VISIBLE_DEVICES hides every card; `|| exit` keeps a script from going on with it.\n\n\
                  Examples:\n  \
                  export CUDA_VISIBLE_DEVICES=$(gua available -l 1) || exit\n  \
                  export CUDA_VISIBLE_DEVICES=$(gua available --claim 10m --wait 1h) || exit\n  \
                  gua available --count 2 --order -free-memory     two cards, those with the most free memory\n  \
                  gua available --gpu-model a100 --min-free-memory 40GB --uuid\n  \
                  gua available --account-as-free \"$USER\"          as if my own processes were gone\n  \
                  gua available --csv                              each card, and what speaks against it\n  \
                  gua available --rule nvgpu                       by memory alone, as nvgpu does"
)]
pub struct AvailableArgs {
    /// Print at most N cards; 0 is all of them.
    #[arg(short, long, value_name = "N")]
    pub limit: Option<usize>,

    /// Exactly N cards, or none.
    #[arg(long, value_name = "N", conflicts_with = "limit", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,

    /// The share of its memory that may be used, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "20")]
    pub max_used_percent: Percent,

    /// The memory that must be free, such as 20GB or 500MB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub min_free_memory: Option<Bytes>,

    /// The highest utilisation, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_util: Option<Percent>,

    /// Only cards with this in their name, in any case. Several times: one of them.
    #[arg(long, value_name = "TEXT", action = ArgAction::Append)]
    pub gpu_model: Vec<String>,

    /// Print UUIDs, and offer MIG instances too.
    #[arg(long)]
    pub uuid: bool,

    /// Which first: power, free-memory, temperature, index; several with commas, a - before one turns it round.
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true)]
    pub order: Option<Order>,

    /// Take this user's processes for gone, by name or uid. Can be given several times.
    #[arg(long, value_name = "USER", action = ArgAction::Append)]
    pub account_as_free: Vec<String>,

    /// How long a card must have been truly idle, as far as a running daemon knows.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse, default_value = "60s")]
    pub free_for: Duration,

    /// Lease them for so long, so that nobody else who asks gua is sent to them. One card, unless -l or --count says more.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub claim: Option<Duration>,

    /// The process that the lease is for and ends with [default: the one that called gua].
    #[arg(long = "for", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub for_pid: Option<u32>,

    /// `gua run` asks: what is said is said in its name.
    #[arg(long, hide = true)]
    pub for_run: bool,

    /// Wait for cards, in order of arrival, at most so long [default: as long as it takes]. Leases them for a minute
    /// if --claim does not say how long.
    #[arg(long, value_name = "TIMEOUT", value_parser = crate::duration::parse, num_args = 0..=1)]
    pub wait: Option<Option<Duration>>,

    /// None for somebody who is over a limit of `gua quota`, whatever is free; exit code 3 then, too.
    #[arg(long)]
    pub respect_quota: bool,

    /// By which rule a card is free; nvgpu's looks at memory alone and exits with 0 though none is.
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    pub rule: RuleName,

    #[command(flatten)]
    pub format: FormatArgs,

    /// Do not say who holds the other cards.
    #[arg(short, long)]
    pub quiet: bool,

    /// The history to ask [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

impl AvailableArgs {
    /// The command in whose name it speaks.
    #[must_use]
    pub fn speaker(&self) -> &'static str {
        if self.for_run {
            "gua run"
        } else {
            "gua available"
        }
    }
}

/// Say why a card is in the state that it is in: what was seen, and the rule behind it.
///
/// Looks at the card now; with --at it says from the history which tick stands for a moment and how its time was counted, or
/// why nobody looked.
#[derive(Debug, Args)]
#[command(
    after_help = "A card is its number, its UUID or the beginning of one; a MIG instance is its UUID. docs/states.md lists\n\
                  the states.\n\n\
                  Examples:\n  \
                  gua explain 0                          why is card 0 called what it is called\n  \
                  gua explain 0 --at 2h                  what was counted two hours ago, and why\n  \
                  gua explain GPU-5f3a --at 2026-11-01T03:00 --tz UTC\n  \
                  gua explain 0 --json | jq .state"
)]
pub struct ExplainArgs {
    /// The card: its number, its UUID or the beginning of one.
    #[arg(value_name = "GPU")]
    pub gpu: String,

    /// The moment: how long ago, such as 2h, or a date like 2026-11-01 or 2026-11-01T03:00 [default: now].
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,

    /// The time zone of what is written and shown, such as UTC or Asia/Seoul [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,

    /// The history to ask [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// The rules by which a card is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuleName {
    #[default]
    Gua,
    Nvgpu,
}

/// The program under nvgpu's name.
#[derive(Debug, Parser)]
#[command(
    name = "nvgpu",
    version,
    about = "NVIDIA GPU tools: gua under the name of the tool that it replaces.",
    infer_long_args = true,
    subcommand_required = true,
    max_term_width = 100,
    after_help = "`gua help list` and `gua help available` tell what else there is."
)]
pub struct NvgpuArgs {
    #[command(subcommand)]
    pub command: NvgpuCommand,
}

#[derive(Debug, Subcommand)]
pub enum NvgpuCommand {
    /// Print the numbers of the cards of which at most 20 % of the memory is used.
    Available {
        /// Max number of GPUs; 0 is all of them.
        #[arg(short, long, value_name = "LIMIT", allow_negative_numbers = true)]
        limit: Option<isize>,
    },
    /// Show the table of cards.
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

/// A number with a unit. A megabyte is 1048576 bytes here, as everywhere in gua.
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

/// Watch the cards and who holds them, live.
///
/// Per card: utilisation, memory, power and temperature with their history, its state and since when. Below: every process
/// with its owner, or every user. ? shows the keys.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  gua top                   q quits, ? explains\n  \
                  gua top --interval 200ms  more often\n  \
                  gua top --readonly        nothing can be signalled\n  \
                  gua top --once            one picture as text, for a pipe or a mail\n  \
                  gua top --fake            made-up cards, to see what it looks like")]
pub struct TopArgs {
    /// The time from one look to the next.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse, default_value = "1s")]
    pub interval: Duration,

    /// Print one picture as text and end. Needs no terminal.
    #[arg(long)]
    pub once: bool,

    /// Never signal a process.
    #[arg(long)]
    pub readonly: bool,

    /// Show three made-up cards instead of this machine's.
    #[arg(long)]
    pub fake: bool,

    /// The history to scroll back into [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}
