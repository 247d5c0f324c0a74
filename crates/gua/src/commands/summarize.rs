//! `gua summarize`: computes the ten values of ResourceSummary from the metric files of `gua run` or run_monitor.

use gua_run::{LineRule, Summarized, summarize_paths};

use crate::commands::prelude::*;

pub fn run(args: &SummarizeArgs) -> anyhow::Result<()> {
    let rule = args.per_field.then_some(LineRule::PerField);
    let found = summarize_paths(&args.paths, rule)?;
    output::data(&match args.json {
        true => found.summary.to_json(),
        false => text(&found),
    })?;
    output::eprint(&remarks(&found));
    Ok(())
}

fn text(found: &Summarized) -> String {
    let entries = found.summary.entries();
    let lengths = entries.iter().map(|(name, _)| name.len());
    let widest = lengths.max().unwrap_or(0);
    let line = |(name, value): &(&str, f64)| {
        let shown = match is_measured(found, name) {
            true => format!("{value:.1}"),
            false => "-".to_owned(),
        };
        format!("{name:<widest$}  {shown:>9}\n")
    };
    entries.iter().map(line).collect()
}

/// Whether a value was measured. The peak of JAX is shown only if the job reported it.
fn is_measured(found: &Summarized, name: &str) -> bool {
    let mut missing = found.missing.iter().map(|missing| match *missing {
        "vram" => "peak_vram",
        "power" => "power_watts",
        other => other,
    });
    !missing.any(|missing| name.starts_with(missing))
}

fn remarks(found: &Summarized) -> String {
    let mut text = String::new();
    if found.guessed_mem_util {
        text.push_str(
            "gua summarize: the dmon file has no header; the third column was used as memory utilisation, as the \
             original does\n",
        );
    }
    if found.left_out > 0 {
        text.push_str(&format!(
            "gua summarize: left out {} with a missing value, as the original does; --per-field counts the other values\n",
            counted(found.left_out, "line")
        ));
    }
    if !found.missing.is_empty() {
        let missing = found.missing.join(", ");
        text.push_str(&format!("gua summarize: not measured: {missing}\n"));
    }
    text
}
