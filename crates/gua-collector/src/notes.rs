//! Keeps and nudges: what holders of idle GPUs say, and what others ask them. The notes are files in the directory of the
//! claims (`gua_claim::Keep`, `gua_claim::Nudge`); this module finds the people and GPUs that they are about.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use gua_claim::{ClaimDir, Keep, MAX_LEASE, Nudge};
use gua_model::alert::finding::{IdleHold, idle_holds};
use gua_model::alert::{Alert, Sender, When};
use gua_model::chain::chain;
use gua_model::classify::holders;
use gua_model::duration;
use gua_model::failure::Failure;
use gua_model::idle;
use gua_model::text::{counted, sanitize, short_age};
use gua_model::{Gpu, GpuUuid, Sample, Thresholds, Uid};
use gua_probe::host;
use gua_probe::process::uid_in_directory;
use gua_render::listing::ListedKeep;
use gua_render::listing::row::Kept;
use gua_render::me::NudgeNote;
use gua_settings::{Layer, Listed, Loaded, Settings};
use jiff::Timestamp;

use crate::alert::feed;
use crate::claims::{Claims, Names, moment};
use crate::{claims, listing, location};

/// Maximum time of write(1).
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The keeps of this host. Without a readable directory there are none.
pub fn keeps(settings: &Settings, now: Timestamp) -> Vec<Keep> {
    let keeps = claims::directory(settings).ok().map(|dir| dir.keeps(now));
    keeps.and_then(Result::ok).unwrap_or_default()
}

/// The nudges of this host in the last day. Without a readable directory there are none.
pub(crate) fn nudges(settings: &Settings, now: Timestamp) -> Vec<Nudge> {
    let nudges = claims::directory(settings).ok().map(|dir| dir.nudges(now));
    nudges.and_then(Result::ok).unwrap_or_default()
}

/// The keeps of the people who hold a GPU.
pub fn of_gpu(
    keeps: &[Keep],
    gpu: &Gpu,
    thresholds: &Thresholds,
    (names, now): (&mut Names, Timestamp),
) -> Vec<Kept> {
    let users = holders(gpu, thresholds).filter_map(user_of);
    let users: Vec<Uid> = users.collect();
    let its = keeps
        .iter()
        .filter(|keep| keep.gpus.contains(&gpu.uuid) && users.contains(&keep.owner));
    its.map(|keep| {
        let (user, why) = (names.user(keep.owner), sanitize(&keep.why));
        Kept {
            text: format!("{user} until {}: {why}", moment(keep.until, now)),
            listed: ListedKeep {
                user,
                uid: keep.owner.0,
                until: keep.until,
                why,
            },
        }
    })
    .collect()
}

/// The user who is answerable for a process.
fn user_of(process: &gua_model::Process) -> Option<Uid> {
    process.identity.as_ref().ok()?.owner()?.who.uid()
}

/// The keeps of a GPU of a live sample, for `gua explain`.
pub fn of_sample(settings: &Settings, sample: &Sample, uuid: Option<&GpuUuid>) -> Vec<Kept> {
    let gpu = sample.gpus.iter().find(|gpu| Some(&gpu.uuid) == uuid);
    let Some(gpu) = gpu else { return Vec::new() };
    let keeps = keeps(settings, sample.at);
    let mut names = Names::default();
    let by = (&mut names, sample.at);
    of_gpu(&keeps, gpu, &settings.thresholds(), by)
}

/// The questions of other users to a user.
pub fn nudges_to(settings: &Settings, user: Uid, sample: &Sample) -> Vec<NudgeNote> {
    let mut names = Names::default();
    let own = nudges(settings, sample.at).into_iter();
    let mut requesters = BTreeSet::new();
    let own = own.filter(|nudge| nudge.to == user && requesters.insert(nudge.owner));
    own.map(|nudge| {
        let is_its = |gpu: &&Gpu| nudge.gpus.contains(&gpu.uuid);
        let is_held = |gpu: &&Gpu| {
            let mut users = gpu.processes.iter().filter_map(user_of);
            users.any(|one| one == user)
        };
        let gpus = sample.gpus.iter().filter(is_its).filter(is_held);
        NudgeNote {
            user: names.user(nudge.owner),
            at: nudge.made,
            gpus: gpus.map(|gpu| gpu.index).collect(),
        }
    })
    // A person who has released the GPUs has answered.
    .filter(|note| !note.gpus.is_empty())
    .collect()
}

/// Keeps the GPUs that the caller holds. Returns what to tell the caller.
///
/// # Errors
/// If the caller holds no GPU, the time is too long, or the note cannot be written.
pub fn keep(
    settings: &Settings,
    sample: &Sample,
    length: Duration,
    why: &str,
) -> Result<String, Failure> {
    if why.trim().is_empty() {
        let message = "--why is empty; say why you still need the GPUs";
        return Err(Failure::usage(message));
    }
    if length.is_zero() || length > MAX_LEASE {
        let longest = duration::written(MAX_LEASE);
        let length = duration::written(length);
        let message = format!("GPUs can be kept for at most {longest}, not for {length}");
        return Err(Failure::usage(message));
    }
    let dir = Claims::open(settings)?.dir;
    let thresholds = settings.thresholds();
    let is_mine = |gpu: &&Gpu| {
        let mut users = holders(gpu, &thresholds).filter_map(user_of);
        users.any(|user| user == dir.me())
    };
    let held: Vec<&Gpu> = sample.gpus.iter().filter(is_mine).collect();
    if held.is_empty() {
        return Err(Failure::failed("you hold no GPU").hint("`gua me` shows what you hold"));
    }
    let until = sample.at.checked_add(length).unwrap_or(sample.at);
    let gpus: Vec<GpuUuid> = held.iter().map(|gpu| gpu.uuid.clone()).collect();
    dir.keep(&gpus, until, why).map_err(failed)?;
    let indexes: Vec<String> = held.iter().map(|gpu| gpu.index.to_string()).collect();
    let (indexes, until) = (indexes.join(", "), moment(until, sample.at));
    Ok(format!("kept until {until}: GPU {indexes}\n"))
}

/// Ends the keep of the caller. Returns what to tell the caller.
///
/// # Errors
/// If the note cannot be removed.
pub fn unkeep(settings: &Settings) -> Result<String, Failure> {
    let ended = Claims::open(settings)?.dir.unkeep().map_err(failed)?;
    Ok(match ended {
        true => "your keep has ended\n".to_owned(),
        false => "you keep no GPU\n".to_owned(),
    })
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::failed(chain(&error))
}

/// Asks a person whether they still need their idle GPUs. Returns the message that was sent, and where it is shown.
///
/// # Errors
/// If the person holds no GPU that has been idle for long, keeps it, or was nudged in the last day.
pub fn nudge(loaded: &Loaded, sample: &Sample, user: &str) -> Result<String, Failure> {
    let settings = &loaded.settings;
    let dir = Claims::open(settings)?.dir;
    let shown = sanitize(user);
    let longer_than = threshold(&settings.alerts, dir.me());
    let long = long_holds(loaded, sample, user, longer_than);
    let Some(uid) = long.first().and_then(|hold| hold.uid) else {
        let is_uid = user.parse::<u32>().is_ok();
        // The lookup returns `None` if the directory service does not answer. The user may exist then.
        if !is_uid && uid_in_directory(user) == Some(None) {
            let failure = Failure::usage(format!("unknown user `{shown}`"));
            return Err(failure.hint("`gua list` shows who holds GPUs"));
        }
        let length = short_age(longer_than);
        let message = format!("{shown} holds no GPU that has been idle for {length} or longer");
        let hint = "`gua list` shows for how long GPUs have been idle";
        return Err(Failure::failed(message).hint(hint));
    };
    if dir.person(uid) == dir.person(dir.me()) {
        return Err(Failure::usage("you cannot nudge yourself"));
    }
    let long = without_kept(long, &keeps(settings, sample.at)).map_err(|keep| {
        let (until, why) = (moment(keep.until, sample.at), sanitize(&keep.why));
        Failure::failed(format!("{shown} still needs the GPUs until {until}: {why}"))
    })?;
    refuse_second(&dir, uid, &shown, sample.at)?;
    let gpus: Vec<GpuUuid> = long.iter().map(|hold| hold.gpu.clone()).collect();
    dir.nudge(uid, &gpus).map_err(failed)?;
    let me = Names::default().user(dir.me());
    let text = message(&long, &me, sample.at);
    let is_written = feed(
        Command::new("write").arg(&long[0].person),
        text.clone().into_bytes(),
        WRITE_LIMIT,
    );
    let place = match is_written {
        Ok(()) => "on their terminal, by `gua me` and at their next log-in",
        Err(_) => "by `gua me` and at their next log-in",
    };
    Ok(format!("{text}\nThis is shown to {shown} {place}.\n"))
}

/// Holds of a person that have been idle for at least this time.
fn long_holds(
    loaded: &Loaded,
    sample: &Sample,
    user: &str,
    longer_than: Duration,
) -> Vec<IdleHold> {
    let terms = listing::terms(&loaded.settings);
    let times = listing::idle(location::source(loaded).as_ref(), sample, &terms);
    let mut holds = idle_holds(sample, &times, &terms.thresholds);
    holds.retain(|hold| {
        let is_theirs = hold.person == user || hold.uid.is_some_and(|uid| uid.to_string() == user);
        is_theirs && hold.uid.is_some() && hold.is_long(longer_than, sample.at)
    });
    holds
}

/// Idle time from which on a user may nudge a person: the shortest of the host's alerts, else the default. The alerts of the user's own
/// configuration do not count, except those of root.
fn threshold(alerts: &[Listed<Alert>], me: Uid) -> Duration {
    let of_host = |alert: &&Listed<Alert>| alert.layer == Layer::Host || me == Uid::ROOT;
    let alerts = alerts.iter().filter(of_host).map(|alert| &alert.value);
    let alerts = alerts.filter(|alert| {
        let mut when = alert.when.iter();
        alert.by == Sender::Daemon && when.any(|when| matches!(when, When::IdleHeld | When::Nudge))
    });
    let configured = alerts.filter_map(|alert| alert.longer_than).min();
    configured.unwrap_or(idle::LONG.unsigned_abs())
}

/// The holds that their person does not keep; if all are kept, one of the keeps.
fn without_kept(holds: Vec<IdleHold>, keeps: &[Keep]) -> Result<Vec<IdleHold>, Keep> {
    let keep_of = |hold: &IdleHold| keeps.iter().find(|keep| keep.covers(hold.uid, &hold.gpu));
    let is_kept = |hold: &IdleHold| keep_of(hold).is_some();
    let (kept, rest): (Vec<IdleHold>, Vec<IdleHold>) = holds.into_iter().partition(is_kept);
    match kept.first().and_then(keep_of) {
        Some(keep) if rest.is_empty() => Err(keep.clone()),
        _ => Ok(rest),
    }
}

/// Rejects a second nudge of a person within a day, also by another user.
fn refuse_second(dir: &ClaimDir, to: Uid, shown: &str, now: Timestamp) -> Result<(), Failure> {
    let nudges = dir.nudges(now).map_err(failed)?;
    let is_same = |nudge: &&Nudge| dir.person(nudge.to) == dir.person(to);
    match nudges.iter().find(is_same) {
        Some(nudge) => {
            let by = Names::default().user(nudge.owner);
            let age = short_age(now.duration_since(nudge.made).unsigned_abs());
            let message = format!("{shown} was nudged {age} ago, by {by}");
            Err(Failure::failed(message).hint("a person is nudged at most once a day"))
        }
        None => Ok(()),
    }
}

fn message(holds: &[IdleHold], me: &str, now: Timestamp) -> String {
    let (host, person) = (host::name(), sanitize(&holds[0].person));
    let line = |hold: &IdleHold| format!("- {}\n", hold.evidence(now));
    let lines: String = holds.iter().map(line).collect();
    let gpus = counted(holds.len() as u64, "GPU");
    format!(
        "Hello {person}, do you still need {gpus} on {host}?\n{lines}\
         Please release what you do not need, or answer with: gua keep 2h --why TEXT\n\
         ({me} asked with gua nudge)\n"
    )
}

#[cfg(test)]
mod tests {
    use gua_model::idle::Idle;
    use gua_model::since::{Since, Start};
    use gua_model::{Bytes, Micros};
    use gua_test::samples;
    use jiff::SignedDuration;

    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn hold(uid: u32, gpu: &str) -> IdleHold {
        IdleHold {
            person: "ada".to_owned(),
            uid: Some(Uid(uid)),
            gpu: gpu.parse().unwrap(),
            gpu_index: 0,
            memory: Ok(Bytes(1 << 30)),
            idle: Idle {
                since: Since {
                    at: at() - SignedDuration::from_hours(3),
                    start: Start::Seen,
                },
                unobserved: Micros(0),
            },
        }
    }

    fn kept(uid: u32, gpu: &str) -> Keep {
        Keep {
            owner: Uid(uid),
            gpus: vec![gpu.parse().unwrap()],
            made: at(),
            until: at() + SignedDuration::from_hours(1),
            why: "eval\u{1b}".to_owned(),
        }
    }

    #[test]
    fn a_person_who_keeps_all_idle_gpus_is_not_nudged() {
        let holds = || vec![hold(1000, "GPU-a"), hold(1000, "GPU-b")];
        let rest = |keeps: &[Keep]| without_kept(holds(), keeps).map(|rest| rest.len());
        assert_eq!(rest(&[]), Ok(2));
        assert_eq!(rest(&[kept(1000, "GPU-a")]), Ok(1));
        assert_eq!(rest(&[kept(1001, "GPU-a")]), Ok(2), "of another person");
        let both = [kept(1000, "GPU-a"), kept(1000, "GPU-b")];
        assert_eq!(rest(&both), Err(both[0].clone()));
    }

    #[test]
    fn a_user_cannot_shorten_the_idle_time_after_which_others_are_nudged() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, length: &str| {
            let text = format!(
                "[[alert]]\nname = \"{length}\"\nwhen = [\"nudge\"]\nto = \"write\"\nlonger_than = \"{length}\"\n"
            );
            std::fs::write(home.path().join(name), text).unwrap();
        };
        std::fs::create_dir(home.path().join(".gua")).unwrap();
        write(".gua/config.toml", "1s");
        let inputs = gua_settings::Inputs {
            variables: std::collections::BTreeMap::new(),
            home: Some(home.path().to_owned()),
            system_file: home.path().join("host.toml"),
        };
        let of = |uid: u32| {
            let loaded = Loaded::from(&inputs, &[]);
            threshold(&loaded.settings.alerts, Uid(uid))
        };
        assert_eq!(of(1000), idle::LONG.unsigned_abs());
        assert_eq!(of(0), Duration::from_secs(1));
        write("host.toml", "5m");
        assert_eq!(of(1000), Duration::from_secs(300));
    }

    #[test]
    fn a_keep_is_shown_while_its_person_holds_the_gpu() {
        let ada = samples::process(7, samples::user(1000, "ada"), 900);
        let held = samples::gpu(0, "GPU-a", 0, vec![ada]);
        let free = samples::gpu(1, "GPU-b", 0, Vec::new());
        let keeps = [
            kept(1000, "GPU-a"),
            kept(1000, "GPU-b"),
            kept(1001, "GPU-a"),
        ];
        let shown = |gpu: &Gpu| {
            let mut names = Names::default();
            of_gpu(&keeps, gpu, &Thresholds::default(), (&mut names, at()))
        };
        let shown_of_held = shown(&held);
        assert_eq!(shown_of_held.len(), 1);
        assert_eq!(shown_of_held[0].listed.uid, 1000);
        assert!(
            !shown_of_held[0].text.contains('\u{1b}'),
            "{shown_of_held:?}"
        );
        assert!(shown(&free).is_empty());
    }

    #[test]
    fn the_question_is_polite_and_has_the_evidence() {
        let text = message(&[hold(1000, "GPU-a")], "eve", at());
        assert!(
            text.starts_with("Hello ada, do you still need 1 GPU on "),
            "{text}"
        );
        assert!(
            text.contains("- GPU 0: 1.0 GB held, idle for 3h00m\n"),
            "{text}"
        );
        assert!(
            text.contains("gua keep 2h --why TEXT\n(eve asked"),
            "{text}"
        );
    }
}
