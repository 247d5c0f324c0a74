//! Makes every Python environment that the tests use, so that the tests themselves need no network.

use gua_test::{originals, python};

fn main() {
    for environment in python::ALL {
        let _ = environment.directory();
    }
    if originals::find_python().is_some() {
        for version in originals::RELEASES {
            let _ = originals::released(version);
        }
    }
}
