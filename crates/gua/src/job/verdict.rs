//! What a run came to, in a few lines for a person.

use std::path::Path;
use std::time::Duration;

use gua_model::text::{Clockwise, harmless};
use gua_run::{CardSummary, RunSummary};

/// A share of a card's time below which a card was as good as unused.
const UNUSED: f64 = 0.01;

/// Less time of a run than this says little about it.
const SHORT: f64 = 0.5;

pub(super) fn text(summary: &RunSummary, out: Option<&Path>) -> String {
    let mut lines = vec![head(summary)];
    lines.extend(summary.gpus.iter().map(card));
    lines.extend(processes(summary));
    lines.extend(waste(summary));
    for note in &summary.notes {
        lines.push(format!("  note: {}", harmless(note)));
    }
    if let Some(out) = out {
        lines.push(format!("  files: {}", harmless(&out.to_string_lossy())));
    }
    lines.join("\n") + "\n"
}

fn head(summary: &RunSummary) -> String {
    let run = &summary.run;
    let end = match run.signal {
        Some(signal) => format!("killed by signal {signal}"),
        None => format!("exit code {}", run.exit_code),
    };
    format!(
        "gua run: {} ended after {}, {end}",
        run.name,
        took(run.seconds)
    )
}

fn took(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    Clockwise(Duration::from_secs_f64(seconds.round())).to_string()
}

fn card(card: &CardSummary) -> String {
    let name = card.name.as_deref().unwrap_or("unknown model");
    let mut parts = Vec::new();
    if card.observed_seconds > 0.0 {
        let share = |word: &str| {
            let seconds = card.states_seconds.get(word).copied().unwrap_or(0.0);
            100.0 * seconds / card.observed_seconds
        };
        parts.push(match card.util_mean_pct {
            Some(util) => format!(
                "{util:.0} % busy, active {:.0} % of the time",
                share("active") + share("stalled") + share("ghost")
            ),
            None => "utilisation unknown".to_owned(),
        });
    }
    let memory = card.own_memory_max_mb.or(card.memory_used_max_mb);
    parts.push(match (memory, card.memory_total_mb) {
        (Some(used), Some(total)) => {
            format!("memory up to {} of {}", size(used), size(total))
        }
        (Some(used), None) => format!("memory up to {}", size(used)),
        (None, _) => "memory unknown".to_owned(),
    });
    if let Some(joules) = card.energy_joules {
        parts.push(energy(joules));
    }
    if card.shared_seconds > 0.0 {
        parts.push(format!(
            "shared with others for {}",
            took(card.shared_seconds)
        ));
    }
    format!(
        "  gpu {} ({}): {}",
        card.index,
        harmless(name),
        parts.join("; ")
    )
}

fn processes(summary: &RunSummary) -> Option<String> {
    let tree = &summary.tree;
    let mut parts = vec![match tree.cpu_cores_mean {
        Some(cores) => format!("cpu {:.1} s ({cores:.1} cores)", tree.cpu_seconds),
        None => format!("cpu {:.2} s", tree.cpu_seconds),
    }];
    parts.extend(
        tree.memory_max_mb
            .map(|mb| format!("memory up to {}", size(mb))),
    );
    if let (Some(read), Some(written)) = (tree.read_mb, tree.written_mb)
        && (read >= 1.0 || written >= 1.0)
    {
        parts.push(format!("read {read:.0} MB, wrote {written:.0} MB"));
    }
    (summary.run.seconds >= SHORT).then(|| format!("  {}", parts.join("; ")))
}

/// Time of cards in which nothing was done with them.
fn waste(summary: &RunSummary) -> Option<String> {
    let (observed, active) = summary.card_seconds();
    if observed <= 0.0 {
        return None;
    }
    let is_unused = |card: &&CardSummary| {
        let active = card.states_seconds.get("active").copied().unwrap_or(0.0);
        card.observed_seconds > 0.0
            && card.util_mean_pct.is_some()
            && active < UNUSED * card.observed_seconds
    };
    let unused: Vec<String> = summary
        .gpus
        .iter()
        .filter(is_unused)
        .map(|card| card.index.to_string())
        .collect();
    let idle = (observed - active).max(0.0);
    let mut line = format!(
        "  wasted: {} of {} card time ({:.0} %)",
        took(idle),
        took(observed),
        100.0 * idle / observed
    );
    if !unused.is_empty() {
        line.push_str(&format!("; gpu {} was never used", unused.join(", ")));
    }
    Some(line)
}

fn size(mb: u64) -> String {
    if mb < 1024 {
        return format!("{mb} MB");
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "megabytes fit the mantissa, and this is for showing"
    )]
    let gigabytes = mb as f64 / 1024.0;
    format!("{gigabytes:.1} GB")
}

fn energy(joules: f64) -> String {
    let watt_hours = joules / 3600.0;
    match watt_hours {
        1000.0.. => format!("{:.2} kWh", watt_hours / 1000.0),
        1.0.. => format!("{watt_hours:.0} Wh"),
        _ => format!("{joules:.0} J"),
    }
}
