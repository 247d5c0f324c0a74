//! The result of a run in a few lines: what it used, and what it wasted.

use std::path::Path;
use std::time::Duration;

use gua_model::run::{peak_memory, size};
use gua_model::text::{Clockwise, sanitize};

use crate::{GpuSummary, RunSummary};

/// Minimum duration in seconds of a run whose processor use is shown.
const SHORT: f64 = 0.5;

/// Part of the observed time whose energy counts as that of all of it.
const MOST: f64 = 0.95;

/// Returns the lines; `out` is the directory of the run's files.
pub fn text(summary: &RunSummary, out: Option<&Path>) -> String {
    let mut lines = vec![head(summary)];
    lines.extend(summary.gpus.iter().map(gpu_line));
    lines.extend(processes(summary));
    lines.extend(waste(summary));
    for note in &summary.notes {
        lines.push(format!("  note: {}", sanitize(note)));
    }
    if let Some(out) = out {
        lines.push(format!("  files: {}", sanitize(&out.to_string_lossy())));
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

fn gpu_line(gpu: &GpuSummary) -> String {
    let name = gpu.name.as_deref().unwrap_or("unknown model");
    let mut parts = Vec::new();
    if gpu.observed_seconds > 0.0 {
        parts.push(match (gpu.util_mean_pct, gpu.rolled_up().active_share()) {
            (Some(util), Some(active)) => {
                let active = 100.0 * active;
                format!("{util:.0} % busy, active {active:.0} % of the time")
            }
            (Some(util), None) => format!("{util:.0} % busy"),
            (None, _) => "utilisation unknown".to_owned(),
        });
    }
    parts.push(peak_memory(
        gpu.own_memory_max_mb,
        gpu.memory_used_max_mb,
        gpu.memory_total_mb,
    ));
    if let Some(joules) = gpu.energy_joules {
        let known = gpu.energy_seconds.unwrap_or(gpu.observed_seconds);
        let is_part = known < MOST * gpu.observed_seconds;
        let at_least = if is_part { "at least " } else { "" };
        parts.push(format!("{at_least}{}", energy(joules)));
    }
    if let Some(shared) = gpu.shared_seconds.filter(|shared| *shared > 0.0) {
        parts.push(format!("shared with others for {}", took(shared)));
    }
    format!(
        "  gpu {} ({}): {}",
        gpu.index,
        sanitize(name),
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

/// Time in which GPUs were not used.
fn waste(summary: &RunSummary) -> Option<String> {
    let time = summary.rolled_up();
    let share = 1.0 - time.active_share()?;
    let unused: Vec<String> = summary
        .gpus
        .iter()
        .filter(|gpu| gpu.rolled_up().is_unused())
        .map(|gpu| gpu.index.to_string())
        .collect();
    let mut line = format!(
        "  wasted: {} of {} GPU time ({:.0} %)",
        took(time.idle),
        took(time.known()),
        100.0 * share
    );
    match unused.split_last() {
        None => {}
        Some((only, [])) => line.push_str(&format!("; GPU {only} was never used")),
        Some((last, others)) => line.push_str(&format!(
            "; GPUs {} and {last} were never used",
            others.join(", ")
        )),
    }
    Some(line)
}

fn energy(joules: f64) -> String {
    let watt_hours = joules / 3600.0;
    match watt_hours {
        1000.0.. => format!("{:.2} kWh", watt_hours / 1000.0),
        1.0.. => format!("{watt_hours:.0} Wh"),
        _ => format!("{joules:.0} J"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{ResourceSummary, RunFacts, TreeSummary};
    use gua_model::State;

    fn gpu(index: u32, active: f64, util: Option<f64>) -> GpuSummary {
        GpuSummary {
            index,
            uuid: format!("GPU-{index}"),
            name: Some("NVIDIA A100".to_owned()),
            memory_total_mb: Some(81_920),
            memory_used_max_mb: Some(40_000),
            own_memory_max_mb: Some(31_949),
            util_mean_pct: util,
            util_max_pct: None,
            own_util_mean_pct: None,
            mem_util_mean_pct: None,
            power_watts_mean: None,
            power_watts_max: None,
            temperature_max_c: None,
            energy_joules: Some(1_123_200.0),
            energy_from: Some("counter"),
            energy_seconds: Some(3600.0),
            energy_estimate_joules: None,
            energy_estimate_seconds: None,
            observed_seconds: 3600.0,
            gap_seconds: 0.0,
            shared_seconds: Some(0.0),
            states_seconds: BTreeMap::from([
                (State::Active, active),
                (State::IdleHeld, 3600.0 - active),
            ]),
            missing: BTreeMap::new(),
        }
    }

    fn summary(gpus: Vec<GpuSummary>) -> RunSummary {
        RunSummary {
            resources: ResourceSummary::default(),
            run: RunFacts {
                version: 1,
                id: "r".to_owned(),
                name: "python".to_owned(),
                host: "h".to_owned(),
                started: String::new(),
                ended: String::new(),
                seconds: 3600.4,
                exit_code: 0,
                signal: None,
                interval_seconds: 2.0,
                samples: 1800,
            },
            gpus,
            tree: TreeSummary {
                processes_max: 3,
                threads_max: 9,
                cpu_seconds: 7200.0,
                cpu_cores_mean: Some(2.0),
                cpu_cores_max: Some(4.0),
                memory_max_mb: Some(900),
                read_mb: Some(5000.0),
                written_mb: Some(0.2),
            },
            phases: Vec::new(),
            values: serde_json::Map::new(),
            unmeasured: Vec::new(),
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_summary_shows_used_and_wasted_time_in_a_few_lines() {
        let text = text(
            &summary(vec![gpu(0, 2700.0, Some(63.2)), gpu(1, 0.0, Some(0.4))]),
            None,
        );
        assert_eq!(
            text,
            "gua run: python ended after 1:00:00, exit code 0\n\
             \x20 gpu 0 (NVIDIA A100): 63 % busy, active 75 % of the time; memory up to 31.2 GB of 80.0 GB; 312 Wh\n\
             \x20 gpu 1 (NVIDIA A100): 0 % busy, active 0 % of the time; memory up to 31.2 GB of 80.0 GB; 312 Wh\n\
             \x20 cpu 7200.0 s (2.0 cores); memory up to 900 MB; read 5000 MB, wrote 0 MB\n\
             \x20 wasted: 1:15:00 of 2:00:00 GPU time (62 %); GPU 1 was never used\n\
             \x20 note: a note\n"
        );
    }

    #[test]
    fn energy_of_a_part_of_the_time_is_a_minimum() {
        let mut partial = gpu(0, 3600.0, Some(90.0));
        partial.energy_seconds = Some(1800.0);
        let text = text(&summary(vec![partial]), None);
        assert!(text.contains("; at least 312 Wh"), "{text}");
    }

    #[test]
    fn a_gpu_without_readings_is_not_called_unused() {
        let mut silent = gpu(0, 0.0, None);
        silent.states_seconds = BTreeMap::from([(State::HeldUnknown, 3600.0)]);
        let text = text(&summary(vec![silent]), None);
        assert!(text.contains("utilisation unknown"), "{text}");
        assert!(!text.contains("never used"), "{text}");
        assert!(!text.contains("wasted"), "{text}");
    }

    #[test]
    fn a_gpu_that_worked_for_nobody_we_saw_was_used() {
        let with = |index, states: &[(State, f64)]| {
            let mut with = gpu(index, 0.0, Some(97.0));
            with.states_seconds = states.iter().copied().collect();
            with
        };
        let check = |gpus: Vec<GpuSummary>, expected: &str| {
            let text = text(&summary(gpus), None);
            let line = text.lines().find(|line| line.contains("wasted"));
            assert_eq!(line.unwrap_or_default().trim(), expected, "{text}");
        };
        let ghost = with(0, &[(State::Ghost, 3600.0)]);
        let text = text(&summary(vec![ghost.clone()]), None);
        assert!(text.contains("97 % busy, active 100 % of the time"));
        check(vec![ghost], "wasted: 0.0 s of 1:00:00 GPU time (0 %)");
        let mostly_unknown = with(0, &[(State::HeldUnknown, 3599.0), (State::TrulyIdle, 1.0)]);
        check(
            vec![mostly_unknown],
            "wasted: 1.0 s of 1.0 s GPU time (100 %)",
        );
        let idle = |index| with(index, &[(State::TrulyIdle, 3600.0)]);
        check(
            vec![idle(0), idle(2)],
            "wasted: 2:00:00 of 2:00:00 GPU time (100 %); GPUs 0 and 2 were never used",
        );
        check(
            vec![idle(0), idle(2), idle(5)],
            "wasted: 3:00:00 of 3:00:00 GPU time (100 %); GPUs 0, 2 and 5 were never used",
        );
    }
}
