//! The timer of `gua csv`: two systemd user units, written and started like the service.

use std::path::Path;
use std::time::Duration;

use gua_model::Uid;
use gua_model::failure::Failure;
use gua_probe::process::ProcessTable;
use gua_settings::kind::CsvFormat;
use gua_settings::{Settings, Source};

use super::place::Place;
use super::unit::{self, SAMPLE_SERVICE};
use super::units::{Messages, Units, removed};
use super::{Install, Output, this_program};
use crate::csv::configured_directory;

const SERVICE: &str = "gua-csv.service";
const TIMER: &str = "gua-csv.timer";
/// Timer of gpu_stats, which this one replaces.
const OLD_TIMER: &str = "gpu_stats.timer";

/// First line of the units, which identifies units written by gua.
const FIRST_LINE: &str = "# Written by `gua csv install`. Changes here are lost when it runs again; use `systemctl --user edit`.";

/// Directory with a file for each user with lingering enabled (loginctl(1)).
const LINGERING: &str = "/var/lib/systemd/linger";

/// Installs, enables and starts the timer.
pub fn install(install: &Install, place: &Place, settings: &Settings) -> Result<Output, Failure> {
    let csv = &settings.csv;
    // The configuration is read again for every sample, so only flags go into the unit.
    let is_flag = |source: &Source| matches!(source, Source::Flag(_));
    let directory = is_flag(&csv.dir.source).then(|| configured_directory(settings));
    let form = is_flag(&csv.format.source).then_some(csv.format.value);
    let service = service(&this_program(place)?, directory.flatten().as_deref(), form);
    let units = Units {
        place,
        command: "gua csv",
        first_line: FIRST_LINE,
        texts: vec![(SERVICE, service), (TIMER, timer(csv.every.value))],
    };
    if install.print {
        return Ok(units.printed().into());
    }
    units.write(install.force)?;
    let mut after = String::new();
    if !place.is_image() && !lingers() {
        after.push_str(
            "  lingering is disabled: the timer stops while you are logged out; to keep it running: loginctl enable-linger\n",
        );
    }
    if place.unit(OLD_TIMER).exists() {
        let disable = place.systemctl_line(&["disable", "--now", OLD_TIMER]);
        after.push_str(&format!("  the timer of gpu_stats is installed too and writes the same files; to remove it: {disable}\n"));
    }
    let messages = Messages {
        notes: String::new(),
        image_needs: None,
        idle: place.begins().to_owned(),
        after,
        look: ["list-timers", TIMER],
    };
    units.enable(install, &messages)
}

/// Stops the timer and removes its units.
pub fn uninstall(place: &Place) -> Result<String, Failure> {
    let names = [TIMER, SERVICE];
    removed(
        place,
        "gua csv",
        &names,
        FIRST_LINE,
        "the files of all days",
    )
}

/// Whether lingering is enabled, so that the user's timers run without a session.
fn lingers() -> bool {
    let uid = Uid(rustix::process::getuid().as_raw());
    let mut table = ProcessTable::default();
    let name = table.user(uid).name;
    name.is_some_and(|name| Path::new(LINGERING).join(name).exists())
}

/// The service. Without a directory or a format, those configured at the time of each sample are used.
fn service(program: &Path, directory: Option<&Path>, form: Option<CsvFormat>) -> String {
    let mut words = ["csv", "sample"].map(String::from).to_vec();
    if let Some(directory) = directory {
        let directory = directory.to_string_lossy().into_owned();
        words.extend(["--dir".to_owned(), directory]);
    }
    words.extend(form.map(|form| match form {
        CsvFormat::Full => "--csv-format=full".to_owned(),
        CsvFormat::Classic => "--csv-format=classic".to_owned(),
    }));
    let values = [
        ("first_line", FIRST_LINE),
        (
            "description",
            "gua, one sample for the daily CSV of the GPUs",
        ),
        ("network", ""),
        ("exec", &unit::exec(program, &words)),
        ("limit", "120"),
        ("rest", "NoNewPrivileges=yes\n"),
    ];
    unit::filled(SAMPLE_SERVICE, &values)
}

fn timer(every: Duration) -> String {
    let description = "gua, samples for the daily CSV of the GPUs";
    unit::timer(FIRST_LINE, description, every, None)
}

#[cfg(test)]
mod tests {
    use super::super::place::Scope;
    use super::super::tests::verify;
    use super::*;

    #[test]
    fn systemd_finds_nothing_wrong_with_the_units() {
        for minutes in [1, 5, 7, 20, 60, 90, 120, 1440] {
            let every = Duration::from_secs(minutes * 60);
            let directory = Path::new("/home/a b/100% \"x\"");
            // Any existing program: systemd checks that it is executable.
            let program = Path::new("/bin/true");
            let service = service(program, Some(directory), Some(CsvFormat::Full));
            verify(&[(TIMER, timer(every)), (SERVICE, service)], Scope::User);
        }
    }

    #[test]
    fn a_period_that_divides_the_hour_or_the_day_goes_by_the_clock() {
        let check = |minutes: u64, expected: &str| {
            assert_eq!(unit::when(Duration::from_secs(minutes * 60)), expected);
        };
        check(5, "OnCalendar=*:0/5\n");
        check(1, "OnCalendar=*:0/1\n");
        check(60, "OnCalendar=hourly\n");
        check(240, "OnCalendar=0/4:00\n");
        check(1440, "OnCalendar=daily\n");
        check(7, "OnActiveSec=1s\nOnUnitActiveSec=420s\n");
        check(90, "OnActiveSec=1s\nOnUnitActiveSec=5400s\n");
    }
}
