//! The timer of `gua sync-once`: two units that are written, started and removed like the collector's unit.

use std::time::Duration;

use gua_model::failure::Failure;
use gua_settings::Loaded;

use super::board::network;
use super::collector::{admit_board, check_safe, facts};
use super::place::{Place, Scope};
use super::unit::{self, SAMPLE_SERVICE, UnitFacts};
use super::units::{Messages, Units, removed};
use super::{Install, Output, system_user};

pub(super) const SERVICE: &str = "gua-sync.service";
pub(super) const TIMER: &str = "gua-sync.timer";
const USUAL: Duration = Duration::from_secs(300);

/// Installs, enables and starts the timer.
pub fn install(install: &Install, place: &Place, loaded: &Loaded) -> Result<Output, Failure> {
    let every = install.every.unwrap_or(USUAL);
    if every < Duration::from_secs(1) {
        return Err(Failure::usage("--every must be at least 1s"));
    }
    let install = &Install {
        cloud: true,
        ..install.clone()
    };
    let facts = facts(install, place, loaded)?;
    let units = Units {
        place,
        command: "gua service",
        first_line: unit::FIRST_LINE,
        texts: vec![(SERVICE, service(&facts)), (TIMER, timer(every))],
    };
    let notes = facts.board_notes();
    if install.print {
        let text = units.printed();
        return Ok(Output { text, notes });
    }
    check_safe(&facts, place, loaded)?;
    admit_board(&facts, place, loaded)?;
    system_user::admit(place, facts.db.as_deref())?;
    units.write(install.force)?;
    system_user::create(place, facts.db.as_deref())?;
    let program = facts.program.display();
    let after = match place.scope {
        Scope::System => "",
        Scope::User => {
            "  it stops while you are logged out; to keep it running: loginctl enable-linger\n"
        }
    };
    let messages = Messages {
        notes,
        image_needs: Some(format!("the program at {program} and an enrolment")),
        idle: place.begins().to_owned(),
        after: after.to_owned(),
        look: ["list-timers", TIMER],
    };
    units.enable(install, &messages)
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
    if !place.runs_systemd() {
        return text + &place.not_running();
    }
    let state = |unit: &str, property: &str| place.property(unit, property);
    text.push_str(&format!("  state: {}\n", state(TIMER, "ActiveState")));
    text.push_str(&format!("  last result: {}\n", state(SERVICE, "Result")));
    let next = state(TIMER, "NextElapseUSecRealtime");
    if !next.is_empty() {
        text.push_str(&format!("  next: {next}\n"));
    }
    text
}

fn service(facts: &UnitFacts) -> String {
    let archive = facts.board.as_ref().is_some_and(|board| board.archive);
    let mut words = vec!["sync-once".to_owned()];
    words.extend(facts.database());
    words.extend(archive.then(|| "--archive".to_owned()));
    let values = [
        ("first_line", unit::FIRST_LINE),
        (
            "description",
            "gua, one GPU sample for the local history and the board",
        ),
        ("network", network(facts.scope)),
        ("exec", &unit::exec(&facts.program, &words)),
        // The first upload to an archive may send many files.
        ("limit", if archive { "1h" } else { "2min" }),
        ("rest", &facts.rest("")),
    ];
    unit::filled(SAMPLE_SERVICE, &values)
}

fn timer(every: Duration) -> String {
    // Spreads the pushes of the hosts of a site.
    let spread = (every / 10).min(Duration::from_secs(30));
    let description = "gua, periodic GPU samples for the board";
    unit::timer(unit::FIRST_LINE, description, every, Some(spread))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::service::host_facts::HostFacts;
    use crate::service::tests::{self, MAX_EXPOSURE, board, check_exposure, hosts, verify};
    use crate::service::unit::Readers;

    fn facts(scope: Scope, archive: bool) -> UnitFacts {
        UnitFacts {
            db: None,
            board: Some(board(archive)),
            ..tests::facts(scope, Readers::Everyone)
        }
    }

    #[test]
    fn the_service_of_the_timer_has_a_low_exposure() {
        let check = |host: &HostFacts, program: &str, db: Option<&str>| {
            let facts = UnitFacts {
                program: program.into(),
                db: db.map(PathBuf::from),
                host: host.clone(),
                ..facts(Scope::System, true)
            };
            let unit = service(&facts);
            let shows_home = [Some(program), db]
                .iter()
                .flatten()
                .any(|path| !path.starts_with("/bin"));
            let home = if shows_home { "tmpfs" } else { "yes" };
            assert!(unit.contains(&format!("\nProtectHome={home}\n")), "{unit}");
            check_exposure(SERVICE, &unit, MAX_EXPOSURE);
        };
        for host in hosts() {
            check(&host, "/bin/true", None);
        }
        let widest = hosts().last().unwrap();
        for program in ["/bin/true", "/root/bin/true"] {
            for db in [None, Some("/home/100% gpu/gua.db")] {
                check(&widest, program, db);
            }
        }
    }

    #[test]
    fn systemd_finds_nothing_wrong_with_the_timer() {
        for scope in [Scope::System, Scope::User] {
            for (archive, minutes) in [(false, 5), (true, 7)] {
                let facts = facts(scope, archive);
                let every = Duration::from_secs(minutes * 60);
                let service = service(&facts);
                assert_eq!(service.contains("--archive"), archive);
                let credential = "LoadCredential=cloud.json:/root/.gua/a b.json\n";
                let is_given = service.contains(credential);
                assert_eq!(is_given, scope == Scope::System, "{service}");
                verify(&[(SERVICE, service), (TIMER, timer(every))], scope);
            }
        }
    }
}
