//! The timer of `gua sync-once`: two units beside the collector's, written, started and removed like it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use super::place::{Place, Scope};
use super::systemctl::Systemctl;
use super::unit::{self, HARDENING, Readers, when, word};
use super::{begins_with, default_readers, stranger, write_unit};
use crate::cli::{ServiceInstallArgs, ServiceScopeArgs};
use crate::dispatch::load;
use crate::failure::Failure;
use crate::{cloud, output};

const SERVICE: &str = "gua-sync.service";
const TIMER: &str = "gua-sync.timer";
const USUAL: Duration = Duration::from_secs(300);

/// What the units depend on.
#[derive(Clone, Debug)]
struct Facts {
    program: PathBuf,
    scope: Scope,
    readers: Readers,
    /// The enrolment, where it is not the one that is found without being told.
    enrolment: PathBuf,
    every: Duration,
    archive: bool,
}

pub(super) fn install(args: &ServiceInstallArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.scope)?;
    let every = args.every.unwrap_or(USUAL);
    if every < Duration::from_secs(1) {
        return Err(Failure::usage("--every: a timer runs once a second at most").into());
    }
    let loaded = load(&[])?;
    let facts = Facts {
        program: std::env::current_exe().context("cannot tell where this program is")?,
        scope: place.scope,
        readers: default_readers(),
        enrolment: loaded.settings.cloud.config.value.clone(),
        every,
        archive: args.archive,
    };
    let units = [(SERVICE, service(&facts)), (TIMER, timer(&facts))];
    if args.print {
        let texts = units.map(|(name, text)| format!("# {name}\n{text}"));
        return output::data(&texts.join("\n"));
    }
    if !place.is_image() {
        // What the timer could never do is told now. The salt of hidden names is made, which the service may not.
        cloud::enrolled(&loaded)?;
        cloud::users(&loaded.settings)?;
    }
    for (name, _) in &units {
        let path = place.unit(name);
        if path.exists() && !args.force && !begins_with(&path, unit::FIRST_LINE)? {
            let hint = "remove it first, or give --force to replace it";
            return Err(stranger(&path, "", Some(hint.to_owned())).into());
        }
    }
    for (name, text) in &units {
        write_unit(&place.unit(name), text)?;
    }
    let systemctl = Systemctl { place: &place };
    systemctl.run(&["enable", TIMER])?;
    let mut said = format!("gua service: installed {}\n", place.unit(TIMER).display());
    if place.is_image() {
        said.push_str(&format!(
            "  {}\n  the image needs the program at {} and an enrolment\n",
            place.begins(),
            facts.program.display()
        ));
        return output::data(&said);
    }
    if !systemctl.is_running() {
        said.push_str(&format!("  {}\n", place.begins()));
    } else {
        systemctl.run(&["daemon-reload"])?;
        if args.no_start {
            said.push_str(&format!(
                "  start: {}\n",
                systemctl.shown(&["start", TIMER])
            ));
        } else {
            systemctl.run(&["restart", TIMER])?;
            said.push_str("  started\n");
        }
    }
    if place.scope == Scope::User {
        said.push_str(
            "  it rests while you are logged out; to keep it running: loginctl enable-linger\n",
        );
    }
    let look = systemctl.shown(&["list-timers", TIMER]);
    said.push_str(&format!("  look: {look}\n"));
    output::data(&said)
}

pub(super) fn uninstall(args: &ServiceScopeArgs) -> anyhow::Result<()> {
    let place = Place::of(args)?;
    let units = [TIMER, SERVICE].map(|name| place.unit(name));
    let there: Vec<&PathBuf> = units.iter().filter(|path| path.exists()).collect();
    if there.is_empty() {
        let path = place.unit(TIMER);
        return output::data(&format!(
            "gua service: not installed at {}\n",
            path.display()
        ));
    }
    for path in &there {
        if !begins_with(path, unit::FIRST_LINE)? {
            return Err(stranger(path, " and is left alone", None).into());
        }
    }
    let systemctl = Systemctl { place: &place };
    if systemctl.is_running() {
        systemctl.run(&["stop", TIMER])?;
    }
    systemctl.run(&["disable", TIMER])?;
    for path in &there {
        fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    if systemctl.is_running() {
        systemctl.run(&["daemon-reload"])?;
    }
    output::data(&format!(
        "gua service: removed {}\n  kept: the enrolment, and the history at {}\n",
        place.unit(TIMER).display(),
        place.history()
    ))
}

/// Some lines where the timer is installed.
pub(super) fn status(place: &Place) -> String {
    let path = place.unit(TIMER);
    if !path.exists() {
        return String::new();
    }
    let mut said = format!("gua service: timer of sync-once at {}\n", path.display());
    let systemctl = Systemctl { place };
    if systemctl.is_running() {
        let state = |unit: &str, property: &str| systemctl.property(unit, property);
        said.push_str(&format!("  state: {}\n", state(TIMER, "ActiveState")));
        said.push_str(&format!("  last result: {}\n", state(SERVICE, "Result")));
        let next = state(TIMER, "NextElapseUSecRealtime");
        if !next.is_empty() {
            said.push_str(&format!("  next: {next}\n"));
        }
    } else if place.is_image() {
        said.push_str(&format!("  {}\n", place.begins()));
    } else {
        said.push_str("  systemd is not running here\n");
    }
    said
}

fn service(facts: &Facts) -> String {
    let mut words = vec![
        word(&facts.program.to_string_lossy()),
        "sync-once".to_owned(),
    ];
    if facts.scope == Scope::System {
        words.extend(["--db".to_owned(), unit::database(Scope::System).to_owned()]);
        // The host's service has no home of its own to look in.
        let enrolment = word(&facts.enrolment.to_string_lossy());
        words.extend(["--config".to_owned(), enrolment]);
    }
    if facts.archive {
        words.push("--archive".to_owned());
    }
    let scope_lines = match facts.scope {
        Scope::System => unit::system_lines(&facts.readers, &[&facts.program, &facts.enrolment]),
        Scope::User => String::new(),
    };
    let network = match facts.scope {
        Scope::System => "Wants=network-online.target\nAfter=network-online.target\n",
        Scope::User => "",
    };
    format!(
        "{first}\n\
         [Unit]\n\
         Description=gua, one look at the GPUs for the local history and the board\n\
         {network}\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={exec}\n\
         # That it went well is no news; what goes wrong is, and stands in the journal.\n\
         StandardOutput=null\n\
         TimeoutStartSec={limit}\n\
         Nice=5\n\
         {scope_lines}\
         {HARDENING}",
        first = unit::FIRST_LINE,
        exec = words.join(" "),
        // A first archive has many files to send.
        limit = if facts.archive { "1h" } else { "2min" },
    )
}

fn timer(facts: &Facts) -> String {
    // So that the hosts of a site do not come all at once.
    let spread = (facts.every / 10).min(Duration::from_secs(30)).as_secs();
    format!(
        "{first}\n\
         [Unit]\n\
         Description=gua, a look at the GPUs for the board now and then\n\
         \n\
         [Timer]\n\
         {when}\
         AccuracySec=1s\n\
         RandomizedDelaySec={spread}s\n\
         \n\
         [Install]\n\
         WantedBy=timers.target\n",
        first = unit::FIRST_LINE,
        when = when(facts.every),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::verify;

    #[test]
    fn systemd_finds_nothing_wrong_with_the_timer() {
        for scope in [Scope::System, Scope::User] {
            for (archive, minutes) in [(false, 5), (true, 7)] {
                let facts = Facts {
                    // Any program that exists: systemd looks whether it can be executed.
                    program: "/bin/true".into(),
                    scope,
                    readers: Readers::Everyone,
                    enrolment: "/root/.gua/a b.json".into(),
                    every: Duration::from_secs(minutes * 60),
                    archive,
                };
                let service = service(&facts);
                assert_eq!(service.contains("--archive"), archive);
                let is_named = service.contains("--config \"/root/.gua/a b.json\"");
                assert_eq!(is_named, scope == Scope::System, "{service}");
                // The secret must be readable.
                assert!(!service.contains("ProtectHome=yes"), "{service}");
                verify(&[(SERVICE, service), (TIMER, timer(&facts))], scope);
            }
        }
    }
}
