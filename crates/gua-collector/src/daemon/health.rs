//! Health of a daemon, for probes: whether the history that it writes has a recent tick.
//!
//! The history is what all forms of the daemon have in common: in the background, in the foreground of a container, and as the
//! host's service, which answers through its socket. A daemon that runs but stores nothing is not healthy.

use std::path::Path;
use std::time::Duration;

use gua_model::chain::chain;
use gua_model::duration;
use gua_model::text::short_age;
use gua_settings::{Loaded, Settings};
use gua_store::Facts;
use jiff::Timestamp;

use super::history_file::overdue;
use crate::location;

/// Checks the daemon that writes the history of these settings. Returns a one-line, readable answer for a probe: `Ok` if
/// the daemon is healthy.
pub fn health(loaded: &Loaded, now: Timestamp) -> Result<String, String> {
    answer(judged(&location::history(loaded), &loaded.settings, now))
}

/// The health of the host's collector, regardless of the user's own history; `None` if the host has none.
pub fn of_host(loaded: &Loaded, now: Timestamp) -> Option<String> {
    let host = &loaded.settings.history.service_db.value;
    let judged = location::is_there(host, loaded).then(|| judged(host, &loaded.settings, now))?;
    Some(answer(judged).unwrap_or_else(|unhealthy| unhealthy))
}

fn answer(judged: Result<String, String>) -> Result<String, String> {
    match judged {
        Ok(why) => Ok(format!("healthy: {why}\n")),
        Err(why) => Err(format!("unhealthy: {}\n", why.replace('\n', " "))),
    }
}

/// Why the daemon that writes a history is healthy (`Ok`) or not (`Err`).
pub(crate) fn judged(
    history: &Path,
    settings: &Settings,
    now: Timestamp,
) -> Result<String, String> {
    let access = location::access(history, settings).map_err(|error| chain(&error))?;
    let facts = access.facts(()).map_err(|error| chain(&error))?;
    judge(&facts, now)
}

fn judge(facts: &Facts, now: Timestamp) -> Result<String, String> {
    let run = facts.runs.last();
    let run = run.ok_or("no daemon has written to the history")?;
    let ago = |at: Timestamp| {
        let age = now.duration_since(at);
        format!("{} ago", short_age(age.try_into().unwrap_or_default()))
    };
    if let Some(ended) = run.ended {
        return Err(format!("the daemon stopped {}", ago(ended)));
    }
    let interval = duration::written(run.interval);
    let last = facts.info.last_tick.filter(|last| *last >= run.started);
    let late = overdue(run.started, last, run.interval, now);
    // The clocks of two processes, or of a host and its container, may differ a little.
    let ahead = last.and_then(|last| Duration::try_from(last.duration_since(now)).ok());
    if let Some(ahead) = ahead.filter(|ahead| *ahead > run.interval) {
        let ahead = short_age(ahead);
        return Err(format!(
            "the last tick is {ahead} in the future (interval {interval}): the clock was set back, or is wrong here"
        ));
    }
    let Some(last) = last else {
        let started = ago(run.started);
        return Err(format!("no tick since the daemon started {started}"));
    };
    let text = format!("last tick {} (interval {interval})", ago(last));
    match late {
        None => Ok(text),
        Some(_) => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use gua_store::{Info, RunId, RunInfo};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// Checks a run that started at 0 with an interval of 30 s, at the second 100.
    fn check(last_tick: Option<i64>, ended: Option<i64>, expected: &str) {
        let run = RunInfo {
            id: RunId(1),
            started: at(0),
            ended: ended.map(at),
            interval: Duration::from_secs(30),
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let info = Info {
            version: 3,
            host: None,
            runs: 1,
            ticks: 1,
            first_tick: None,
            last_tick: last_tick.map(at),
            bytes: 0,
        };
        let facts = Facts {
            info,
            gpus: Vec::new(),
            runs: vec![run],
        };
        let line = format!("{expected}\n");
        let expected = match expected.starts_with("healthy") {
            true => Ok(line),
            false => Err(line),
        };
        assert_eq!(answer(judge(&facts, at(100))), expected);
    }

    #[test]
    fn a_daemon_is_healthy_while_its_last_tick_is_recent() {
        check(Some(90), None, "healthy: last tick 10s ago (interval 30s)");
        check(
            Some(10),
            None,
            "unhealthy: last tick 1m30s ago (interval 30s)",
        );
        check(Some(90), Some(95), "unhealthy: the daemon stopped 5s ago");
        // The tick of an earlier run.
        let none = "unhealthy: no tick since the daemon started 1m40s ago";
        check(Some(-5), None, none);
        check(None, None, none);
        check(Some(130), None, "healthy: last tick 0s ago (interval 30s)");
        let future = "unhealthy: the last tick is 31s in the future (interval 30s): the clock was set back, or is wrong here";
        check(Some(131), None, future);
    }
}
