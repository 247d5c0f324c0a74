//! The rule behind a state, in words. The rule itself is in gua-model.

use gua_model::text::sanitize;
use gua_model::{
    Evidence, GapReason, Identity, Missing, OwnerSource, Process, RollUp, State, User, Verdict,
};

/// Returns the roll-up of a state, if it differs from the state itself.
pub fn counts_as(state: State) -> Option<&'static str> {
    match (state, state.roll_up()) {
        (State::Active | State::IdleHeld | State::TrulyIdle, _) => None,
        (_, Some(RollUp::Active)) => Some("counts as active"),
        (_, Some(RollUp::IdleHeld)) => Some("counts as idle-held"),
        (_, Some(RollUp::TrulyIdle)) => Some("counts as truly-idle"),
        (State::Unobserved, None) => Some("counts as a gap, not as idle time"),
        (_, None) => Some("a share of its own, neither active nor idle"),
    }
}

/// Returns the state, and its roll-up if that differs.
pub fn named(state: State) -> String {
    match counts_as(state) {
        Some(counts_as) => format!("{state}: {counts_as}"),
        None => state.to_string(),
    }
}

/// Returns the rule that led to a state, as in docs/states.md.
pub fn rule(state: State) -> &'static str {
    match state {
        State::Active => "utilisation at or over the threshold is active",
        State::Stalled => {
            "utilisation at or over the threshold while the GPU draws no more than a tenth above its idle floor is stalled: work is queued and makes no progress"
        }
        State::Ghost => {
            "utilisation at or over the threshold without any process on the GPU is a ghost"
        }
        State::IdleHeld => {
            "utilisation below the threshold while live processes hold more memory than the limit is idle-held"
        }
        State::OrphanHeld => {
            "utilisation below the threshold while the memory is charged to processes that have exited is orphan-held"
        }
        State::HeldUnknown => {
            "a GPU that is held and has no utilisation reading is held-unknown: whether it was used is unknown"
        }
        State::TrulyIdle => {
            "utilisation below the threshold while no process holds more memory than the limit is truly-idle: the GPU is free"
        }
        State::Unobserved => "time in which the GPU could not be read is unobserved",
    }
}

/// Returns the observations that lead to the state, one sentence each. If the driver's buffer decided, `buffered`
/// contains how many of its samples indicate the state, and how many there are.
pub fn reasons(verdict: &Verdict, buffered: Option<(u64, u64)>) -> Vec<String> {
    let Verdict { state, evidence } = verdict;
    let mut reasons = vec![match buffered {
        Some((samples, all)) => from_buffer(*state, evidence, samples, all),
        None => utilisation(evidence),
    }];
    match state {
        State::Active => {}
        State::Stalled => reasons.push(power(evidence)),
        State::Ghost => {
            reasons
                .push("No process is on the GPU: both of the driver's lists are empty.".to_owned());
        }
        State::IdleHeld | State::OrphanHeld | State::TrulyIdle | State::HeldUnknown => {
            reasons.push(holding(*state, evidence));
        }
        State::Unobserved => {
            reasons = vec![unobserved(evidence.unobserved.unwrap_or(Missing::Failed)).to_owned()];
        }
    }
    reasons
}

fn from_buffer(state: State, evidence: &Evidence, samples: u64, all: u64) -> String {
    let side = match state.roll_up() {
        Some(RollUp::Active) => "at or over",
        _ => "below",
    };
    let threshold = evidence.thresholds.active_util.get();
    if all == 1 {
        return format!(
            "The one sample that the driver buffered in this time was {side} {threshold} % (states.active_util)."
        );
    }
    let were = if samples == 1 { "was" } else { "were" };
    format!(
        "Of the {all} samples that the driver buffered in this time, {samples} {were} {side} {threshold} % (states.active_util)."
    )
}

fn utilisation(evidence: &Evidence) -> String {
    let threshold = evidence.thresholds.active_util;
    match evidence.util {
        Ok(util) => {
            let side = if util >= threshold {
                "at or over"
            } else {
                "below"
            };
            let (util, threshold) = (util.get(), threshold.get());
            format!("The utilisation was {util} %, {side} {threshold} % (states.active_util).")
        }
        Err(Missing::Unsupported) => "The GPU has no utilisation reading.".to_owned(),
        Err(why) => format!("The utilisation could not be read: {}.", missing(why)),
    }
}

fn power(evidence: &Evidence) -> String {
    match (evidence.power, evidence.idle_floor) {
        (Ok(power), Some(floor)) => format!(
            "It draws {} W, and its idle floor is {} W.",
            power.whole_watts(),
            floor.whole_watts()
        ),
        _ => "Its power is unknown.".to_owned(),
    }
}

fn holding(state: State, evidence: &Evidence) -> String {
    let (limit, held) = (evidence.thresholds.held_mb, evidence.held.whole_mb());
    let holders = evidence.holders;
    let who = match holders {
        1 => "One process".to_owned(),
        count => format!("{count} processes"),
    };
    let hold = plural(holders, "holds", "hold");
    let together = plural(holders, "", " together");
    let hidden = match evidence.hidden_memory {
        0 => String::new(),
        count if count == holders => {
            "; the driver hides how much, and a missing reading is never zero".to_owned()
        }
        count => format!(
            "; the driver hides the memory of {count} of them, and a missing reading is never zero"
        ),
    };
    let gone = match (evidence.gone, holders) {
        (0, _) => None,
        (1, 1) => Some("it has".to_owned()),
        (gone, all) if gone == all => Some("all of them have".to_owned()),
        (1, _) => Some("one of them has".to_owned()),
        (gone, _) => Some(format!("{gone} of them have")),
    };
    let gone = gone.map(|who| format!(" According to the kernel, {who} exited."));
    let gone = gone.unwrap_or_default();
    match state {
        State::TrulyIdle if holders == 0 => match evidence.processes {
            0 => "No process is on the GPU.".to_owned(),
            1 => "One process is on the GPU and does not hold it: it only uses graphics (states.count_graphics)."
                .to_owned(),
            count => format!(
                "{count} processes are on the GPU, and none holds it: they only use graphics (states.count_graphics)."
            ),
        },
        State::TrulyIdle => {
            let have = plural(holders, "has", "have");
            format!("{who} {have} {held} MB{together}, not more than {limit} MB (states.held_mb).{gone}")
        }
        State::HeldUnknown => format!("{who} {hold} the GPU{hidden}.{gone}"),
        _ if held > limit || evidence.hidden_memory == 0 => {
            format!("{who} {hold} {held} MB{together}, more than {limit} MB (states.held_mb){hidden}.{gone}")
        }
        _ => format!("{who} {hold} memory{hidden}.{gone}"),
    }
}

/// Returns the first text for one, and the second for several.
fn plural(count: u32, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Explains in a sentence why a GPU could not be observed.
fn unobserved(why: Missing) -> &'static str {
    match why {
        Missing::Gone => {
            "The GPU does not respond: the driver reports it as lost, or no longer lists it."
        }
        Missing::Denied => "The driver denied a reading that the state depends on.",
        Missing::Unsupported | Missing::Failed => "A reading that the state depends on failed.",
    }
}

/// Explains in a few words why a value is missing.
pub fn missing(why: Missing) -> &'static str {
    match why {
        Missing::Unsupported => "not supported by the GPU or its driver",
        Missing::Denied => "permission denied",
        Missing::Gone => "the GPU did not respond",
        Missing::Failed => "the call failed",
    }
}

/// Explains in a sentence why no sample was taken.
pub fn gap(reason: GapReason) -> &'static str {
    match reason {
        GapReason::CollectorDown => "No collector was running.",
        GapReason::DriverHung => "The driver did not respond in time.",
        GapReason::DriverUnavailable => {
            "The driver was missing, denied access, or had the wrong version."
        }
        GapReason::GpuLost => "The GPU was reported as lost, or was no longer listed.",
        GapReason::Denied => "A required reading was denied.",
        GapReason::Failed => "A required reading failed.",
        GapReason::DiskFull => "The tick was read but not stored: the disk was full.",
        GapReason::Suspended => "The host was suspended.",
        GapReason::ClockSet => "The wall clock was set.",
        GapReason::NotStored => "The tick was read but could not be stored.",
    }
}

/// Returns the owner of a process and how it was determined.
pub fn owner(process: &Process) -> String {
    let identity = match &process.identity {
        Ok(identity) => identity,
        Err(Missing::Gone) => return "exited: the kernel no longer has this process".to_owned(),
        Err(_) => return "owner unknown: the process is not visible".to_owned(),
    };
    let Some(owner) = identity.owner() else {
        return "owner unknown: neither its login nor its user could be read".to_owned();
    };
    let claimed = identity.claimed_login.as_ref();
    let claimed = claimed.map_or_else(String::new, |login| {
        format!(
            "; its login uid says {}, which does not count: nothing of root confirms it, or the daemon that started the process \
             had it",
            login.shown()
        )
    });
    let source = source(owner.source, identity);
    format!("{}, {source}{claimed}", owner.shown())
}

fn source(source: OwnerSource, identity: &Identity) -> String {
    let workload = &identity.workload;
    let own = identity.own.as_ref();
    let own = own.map_or_else(|_| "an unknown user".to_owned(), User::shown);
    let of = |kind: &str, id: Option<&str>| {
        let id = sanitize(id.unwrap_or("?"));
        match workload.user {
            Some(_) => format!("for whom {kind} {id} runs as {own}"),
            None if kind == "job" => format!("the user that job {id} runs as"),
            None => format!("because {kind} {id} chooses the uid that it runs as ({own})"),
        }
    };
    match source {
        OwnerSource::Login => "from its login session".to_owned(),
        OwnerSource::Process => match (&identity.login, &identity.claimed_login) {
            (Ok(None), None) => {
                "the user that it runs as, because it has no login session".to_owned()
            }
            (Ok(None), Some(_)) => "the user that it runs as".to_owned(),
            _ => "the user that it runs as, because its login session cannot be read".to_owned(),
        },
        OwnerSource::Rule => format!("by a rule of the configuration; it runs as {own}"),
        OwnerSource::Job => of("job", workload.job.as_ref().map(|it| it.as_str())),
        OwnerSource::Pod => of("pod", workload.pod.as_ref().map(|it| it.as_str())),
        OwnerSource::Container => of(
            "container",
            workload.container.as_ref().map(|it| it.as_str()),
        ),
    }
}
