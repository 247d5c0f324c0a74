//! The timer of `gua sync-once`: two units that are written, started and removed like the collector's unit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::failure::Failure;
use gua_settings::Loaded;

use super::board::{BoardFacts, network};
use super::place::{Place, Scope};
use super::systemctl::Systemctl;
use super::unit::{self, HARDENING, Readers, when, word};
use super::units::{Units, removed};
use super::{Install, Output, collector, different_readers, readers, this_program};

pub(super) const SERVICE: &str = "gua-sync.service";
pub(super) const TIMER: &str = "gua-sync.timer";
const USUAL: Duration = Duration::from_secs(300);

/// Contents of the units.
#[derive(Clone, Debug)]
struct Facts {
    program: PathBuf,
    scope: Scope,
    readers: Readers,
    board: BoardFacts,
    every: Duration,
    archive: bool,
}

/// Installs, enables and starts the timer.
pub fn install(install: &Install, place: &Place, loaded: &Loaded) -> Result<Output, Failure> {
    let every = install.every.unwrap_or(USUAL);
    if every < Duration::from_secs(1) {
        return Err(Failure::usage("--every must be at least 1s"));
    }
    loaded.checked()?;
    let facts = Facts {
        program: this_program()?,
        scope: place.scope,
        readers: readers(install, place)?,
        board: BoardFacts::of(loaded, place)?,
        every,
        archive: install.archive,
    };
    let units = Units {
        place,
        first_line: unit::FIRST_LINE,
        texts: vec![(SERVICE, service(&facts)), (TIMER, timer(&facts))],
    };
    if install.print {
        let notes = facts.board.notes();
        let text = units.printed();
        return Ok(Output { text, notes });
    }
    facts.board.admit(loaded, place)?;
    units.write(install.force)?;
    let systemctl = Systemctl { place };
    systemctl.run(&["enable", TIMER])?;
    let mut text = format!("gua service: installed {}\n", place.unit(TIMER).display());
    text.push_str(&different_readers(&facts.readers, place, collector::NAME));
    text.push_str(&facts.board.notes());
    if place.is_image() {
        text.push_str(&format!(
            "  {}\n  the image needs the program at {} and an enrolment\n",
            place.begins(),
            facts.program.display()
        ));
        return Ok(text.into());
    }
    text.push_str(&systemctl.activate(TIMER, install.no_start, place.begins())?);
    if place.scope == Scope::User {
        text.push_str(
            "  it stops while you are logged out; to keep it running: loginctl enable-linger\n",
        );
    }
    let look = systemctl.shown(&["list-timers", TIMER]);
    text.push_str(&format!("  look: {look}\n"));
    Ok(text.into())
}

/// Stops the timer and removes its units.
pub fn uninstall(place: &Place) -> Result<String, Failure> {
    let kept = format!("the enrolment, and the history at {}", place.history());
    let names = [TIMER, SERVICE];
    removed(place, "gua service", &names, unit::FIRST_LINE, &kept)
}

/// Lines about the timer; empty if it is not installed.
pub(super) fn status(place: &Place) -> String {
    let path = place.unit(TIMER);
    if !path.exists() {
        return String::new();
    }
    let mut text = format!("gua service: timer of sync-once at {}\n", path.display());
    let systemctl = Systemctl { place };
    if !systemctl.is_running() {
        return text + &place.not_running();
    }
    let state = |unit: &str, property: &str| systemctl.property(unit, property);
    text.push_str(&format!("  state: {}\n", state(TIMER, "ActiveState")));
    text.push_str(&format!("  last result: {}\n", state(SERVICE, "Result")));
    let next = state(TIMER, "NextElapseUSecRealtime");
    if !next.is_empty() {
        text.push_str(&format!("  next: {next}\n"));
    }
    text
}

fn service(facts: &Facts) -> String {
    let mut words = vec![
        word(&facts.program.to_string_lossy()),
        "sync-once".to_owned(),
    ];
    if facts.scope == Scope::System {
        words.extend(["--db".to_owned(), unit::database(Scope::System).to_owned()]);
        // The host's service has no home directory for the default path.
        let enrolment = word(&facts.board.enrolment.to_string_lossy());
        words.extend(["--config".to_owned(), enrolment]);
    }
    if facts.archive {
        words.push("--archive".to_owned());
    }
    let scope_lines = match facts.scope {
        Scope::System => {
            let mut files: Vec<&Path> = vec![&facts.program];
            files.extend(facts.board.files.iter().map(PathBuf::as_path));
            unit::system_lines(&facts.readers, &files)
        }
        Scope::User => String::new(),
    };
    format!(
        "{first}\n\
         [Unit]\n\
         Description=gua, one GPU sample for the local history and the board\n\
         {network}\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart={exec}\n\
         # Only errors are written to the journal.\n\
         StandardOutput=null\n\
         TimeoutStartSec={limit}\n\
         Nice=5\n\
         {environment}\
         {scope_lines}\
         {HARDENING}",
        first = unit::FIRST_LINE,
        network = network(facts.scope),
        environment = facts.board.environment(),
        exec = words.join(" "),
        // The first upload to an archive may send many files.
        limit = if facts.archive { "1h" } else { "2min" },
    )
}

fn timer(facts: &Facts) -> String {
    // Spreads the pushes of the hosts of a site.
    let spread = (facts.every / 10).min(Duration::from_secs(30)).as_secs();
    format!(
        "{first}\n\
         [Unit]\n\
         Description=gua, periodic GPU samples for the board\n\
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
    use crate::service::tests::{board, verify};

    #[test]
    fn systemd_finds_nothing_wrong_with_the_timer() {
        for scope in [Scope::System, Scope::User] {
            for (archive, minutes) in [(false, 5), (true, 7)] {
                let facts = Facts {
                    // Any existing program: systemd checks that it is executable.
                    program: "/bin/true".into(),
                    scope,
                    readers: Readers::Everyone,
                    board: board(),
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
