//! Makes every Python environment and fetches every file that the tests use, so that the tests themselves need no network.

use gua_test::{browser, originals, python};

fn main() {
    for environment in python::ALL {
        let _ = environment.directory();
    }
    let _ = python::cloud_init_schema();
    if browser::is_installed() {
        let _ = python::axe_core();
    }
    if originals::find_python().is_some() {
        for version in originals::RELEASES {
            let _ = originals::released(version);
        }
    }
}
