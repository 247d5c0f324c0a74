//! The reader child as the settings describe it.

use gua_model::OwnerPolicy;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::ReaderOptions;
use gua_settings::{Settings, Source};

/// Options for starting the child process and its timeouts.
pub fn options(settings: &Settings) -> ReaderOptions {
    let driver = &settings.driver;
    // By default, the probe chooses the library name itself and reports it if the library is not found.
    let library = (driver.library.source != Source::Default).then(|| driver.library.value.clone());
    let probe = ProbeOptions {
        library,
        driver_pids: driver.pids.value,
        owners: owners(settings),
        kernel_log: Some(driver.kernel_log.value.clone()),
        ..ProbeOptions::default()
    };
    ReaderOptions::this_program(probe, driver.deadline.value)
}

/// Returns the rules by which owners are found, from the settings.
pub fn owners(settings: &Settings) -> OwnerPolicy {
    let rules = settings.owner_rules.iter();
    OwnerPolicy {
        containers: settings.owners.containers.value,
        rules: rules.map(|rule| rule.value.clone()).collect(),
    }
}

/// Options of a daemon. A delay that ends well before the next tick loses no tick that the driver would have answered, even
/// if the next attempt hangs for a while, so short intervals get short delays.
pub fn daemon_options(settings: &Settings) -> ReaderOptions {
    let options = options(settings);
    let longest_pause = (settings.collect.interval.value / 4).min(options.longest_pause);
    ReaderOptions {
        first_pause: options.first_pause.min(longest_pause),
        longest_pause,
        ..options
    }
}
