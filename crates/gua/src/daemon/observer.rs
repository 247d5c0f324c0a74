//! What a collector says: the tick line on stdout, the log line on stderr, the word to systemd and to whoever started it.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use gua_collector::systemd::Notifier;
use gua_collector::{Observer, OpenOutage, Options};
use gua_model::{Gpu, Thresholds, Tick, classify};
use gua_probe::{clock, own_code};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::history::Place;
use super::log_file::LogFile;
use super::outage_file::OutageFile;
use crate::config::{FlagValue, Inputs, Loaded, Settings};
use crate::dispatch::settled;
use crate::output;

/// What the line of a tick begins with.
pub(super) const TICK: &str = "Tick ";
/// What a daemon says to the one who started it: the driver has answered, and the first tick is stored.
pub(super) const ANSWERED: &str = "answered";
pub(super) const READY: &str = "ready";

/// Prints, notifies and reads settings for the loop.
#[derive(Debug)]
pub(super) struct DaemonObserver {
    pub(super) notifier: Notifier,
    pub(super) inputs: Inputs,
    pub(super) flags: Vec<FlagValue>,
    pub(super) thresholds: Thresholds,
    pub(super) history: Place,
    /// The history as it was typed, for the last line.
    pub(super) typed_db: PathBuf,
    /// In the background only.
    pub(super) log: Option<LogFile>,
    /// The pipe to the command that started this daemon, until the first tick is stored.
    pub(super) starter: Option<File>,
    /// In the background only.
    pub(super) trouble: Option<OutageFile>,
    /// The settings that stay as they were at the start.
    pub(super) fixed: Vec<(&'static str, String)>,
}

impl DaemonObserver {
    /// A start that takes long goes on, and systemd is to wait for it.
    pub(super) fn busy(&self) {
        self.notifier
            .send("EXTEND_TIMEOUT_USEC=60000000\nWATCHDOG=1");
    }

    fn settle_log(&self, written: usize) {
        if let Some(log) = &self.log {
            log.settle(written);
        }
    }
}

impl Observer for DaemonObserver {
    fn ticked(&mut self, number: u64, tick: &Tick) {
        let line = tick_line(number, tick, &self.thresholds);
        // A reader that went away, or a full disk, is no reason to stop collecting.
        let _ = output::raw(line.as_bytes());
        self.settle_log(line.len());
    }

    fn note(&mut self, text: &str) {
        let line = log_line(clock::now(), &TimeZone::system(), text);
        output::talk(&line);
        self.settle_log(line.len());
    }

    fn outage(&mut self, trouble: Option<&OpenOutage>) {
        if let Some(file) = &self.trouble {
            file.tell(trouble);
        }
        let status = trouble.map_or_else(String::new, |trouble| {
            format!("losing ticks since {} ({})", trouble.from, trouble.reason)
        });
        self.notifier.send(&format!("STATUS={status}"));
    }

    fn ready(&mut self) {
        self.notifier.send("READY=1");
        if let Some(mut starter) = self.starter.take() {
            // It may have stopped waiting.
            let _ = writeln!(starter, "{READY}");
        }
        // From here on it is one tick like another.
        own_code::give_back();
    }

    fn alive(&mut self) {
        self.notifier.send("WATCHDOG=1");
    }

    fn reload(&mut self) -> Result<Options, String> {
        self.notifier.reloading(clock::monotonic());
        let loaded = Loaded::from(&self.inputs, &self.flags);
        if let Some(log) = &mut self.log {
            log.limit(log_bytes(&loaded.settings));
            log.reopen()
                .map_err(|error| format!("cannot open the log again: {error}"))?;
        }
        let settings = settled(&loaded).map_err(|failure| failure.to_string())?;
        let options = options(settings);
        let later: Vec<&str> = fixed(settings)
            .iter()
            .zip(&self.fixed)
            .filter(|(new, old)| new != old)
            .map(|((key, _), _)| *key)
            .collect();
        if !later.is_empty() {
            let keys = later.join(", ");
            self.note(&format!("changed with the next start only: {keys}"));
        }
        if options.thresholds != self.thresholds {
            self.note("the new thresholds hold for what is shown from now on; the totals of this history keep those that it was made with");
        }
        self.thresholds = options.thresholds;
        Ok(options)
    }

    fn reloaded(&mut self) {
        self.notifier.send("READY=1");
    }

    fn stopping(&mut self, ticks: u64) {
        self.notifier.send("STOPPING=1");
        self.note(&format!(
            "shutdown signal received, stopping ({ticks} ticks)"
        ));
        // Counted while the writer has the file open, which tidies up behind all readers when it closes it.
        match self.history.card_ticks() {
            Ok(rows) => {
                let typed = self.typed_db.display();
                let _ = output::data(&format!("\n{typed}: {rows} total gpu_sample rows\n"));
            }
            Err(error) => self.note(&format!("the rows could not be counted: {error:#}")),
        }
    }
}

/// The settings that the loop knows.
pub(crate) fn options(settings: &Settings) -> Options {
    Options {
        interval: settings.collect.interval.value,
        thresholds: settings.thresholds(),
        keep_raw: settings.collect.keep_raw.value,
    }
}

/// What cannot change while a daemon runs.
pub(super) fn fixed(settings: &Settings) -> Vec<(&'static str, String)> {
    vec![
        ("history.db", format!("{:?}", settings.history.db.value)),
        (
            "collect.pid_file",
            format!("{:?}", settings.collect.pid_file.value),
        ),
        (
            "collect.log_file",
            format!("{:?}", settings.collect.log_file.value),
        ),
        (
            "driver.library",
            format!("{:?}", settings.driver.library.value),
        ),
        (
            "driver.deadline",
            format!("{:?}", settings.driver.deadline.value),
        ),
        ("driver.pids", format!("{:?}", settings.driver.pids.value)),
        ("cloud", format!("{:?}", cloud_values(settings))),
        ("csv.dir", format!("{:?}", settings.csv.dir.value)),
        ("csv.every", format!("{:?}", settings.csv.every.value)),
        ("csv.format", format!("{:?}", settings.csv.format.value)),
    ]
}

fn cloud_values(settings: &Settings) -> impl fmt::Debug {
    let cloud = &settings.cloud;
    (
        (
            &cloud.config.value,
            cloud.users.value,
            &cloud.salt_file.value,
        ),
        (&cloud.ca_file.value, cloud.allow_http.value),
        (cloud.spool_mb.value, cloud.form.value),
    )
}

pub(super) fn log_bytes(settings: &Settings) -> u64 {
    settings.collect.log_mb.value * 1024 * 1024
}

/// `2026/11/15 19:03:43 text`, by the clock on the wall.
pub(super) fn log_line(at: Timestamp, zone: &TimeZone, text: &str) -> String {
    let at = at.to_zoned(zone.clone());
    let text: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    format!("{} {text}\n", at.strftime("%Y/%m/%d %H:%M:%S"))
}

/// `Tick N  ts=HH:MM:SS.mmm  UUID=class ...`, in UTC.
pub(crate) fn tick_line(number: u64, tick: &Tick, thresholds: &Thresholds) -> String {
    /// Of a class.
    const WIDTH: usize = 10;
    // Written out by its parts, since this is done at every tick.
    let at = TimeZone::UTC.to_datetime(tick.sample.at).time();
    let mut line = String::with_capacity(64 * (1 + tick.sample.gpus.len()));
    let _ = write!(
        line,
        "{TICK}{number}  ts={:02}:{:02}:{:02}.{:03}",
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    );
    let counted = |gpu: &&Gpu| gpu.place.counts();
    for gpu in tick.sample.gpus.iter().filter(counted) {
        let state = classify(gpu, thresholds, None).state;
        // What rolls up to nothing is called by its own name.
        let class = state
            .roll_up()
            .map_or(state.as_str(), |share| share.as_str());
        line.push_str("  ");
        line.push_str(gpu.uuid.as_str());
        line.push('=');
        line.push_str(class);
        line.extend(std::iter::repeat_n(' ', WIDTH.saturating_sub(class.len())));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use gua_model::{Driver, Missing, Percent, Sample};

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_log_line_has_local_time_and_stays_one_line() {
        let zone = TimeZone::get("Asia/Kolkata").unwrap();
        assert_eq!(
            log_line(
                at("2026-11-15T19:03:43.9Z"),
                &zone,
                "tick 3 failed:\nno \u{1b}[31mdriver"
            ),
            "2026/11/16 00:33:43 tick 3 failed: no  [31mdriver\n"
        );
    }

    #[test]
    fn a_tick_line_names_every_card_with_its_class_in_ten_columns() {
        let gpu = |uuid: &str, util: Result<u32, Missing>| {
            let mut gpu = Gpu::without_readings(uuid.parse().unwrap(), 0, Missing::Gone);
            gpu.util = util.map(|util| Percent::new(util).unwrap());
            gpu.compute_list = Ok(());
            gpu.graphics_list = Ok(());
            gpu
        };
        let tick = Tick {
            sample: Sample {
                at: at("2026-11-15T19:03:43.7409Z"),
                since_boot: std::time::Duration::ZERO,
                boot: Err(Missing::Unsupported),
                driver: Driver {
                    version: Err(Missing::Unsupported),
                    cuda: Err(Missing::Unsupported),
                },
                gpus: vec![
                    gpu("GPU-a", Ok(10)),
                    gpu("GPU-b", Ok(9)),
                    gpu("GPU-c", Err(Missing::Gone)),
                ],
                problems: Vec::new(),
            },
            interval: std::time::Duration::from_secs(30),
        };
        assert_eq!(
            tick_line(7, &tick, &Thresholds::default()),
            "Tick 7  ts=19:03:43.740  GPU-a=active      GPU-b=truly-idle  GPU-c=unobserved\n"
        );
    }
}
