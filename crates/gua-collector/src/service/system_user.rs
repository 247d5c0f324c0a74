//! The system user `gua`, whose group can read the host's history. It is declared for systemd-sysusers(8), which creates it at
//! boot, and created at once on the running system: without the group, systemd does not start the units.

use std::path::PathBuf;
use std::process::Command;

use gua_model::failure::Failure;

use super::place::Place;
use super::unit::{FIRST_LINE, system_user};
use super::units::{begins_with, remove_file, write_unit};

const DECLARATION: &str = "/etc/sysusers.d/gua.conf";

fn declaration(place: &Place) -> PathBuf {
    place.file(DECLARATION)
}

/// Declares the user, and creates it on the running system.
pub(super) fn create(place: &Place) -> Result<(), Failure> {
    let path = declaration(place);
    write_unit(&path, &system_user())?;
    if place.is_image() {
        return Ok(());
    }
    let by_hand = "create it with `useradd --system --user-group --shell /usr/sbin/nologin gua`, then try again";
    let done = Command::new("systemd-sysusers").arg(&path).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        _ if gua_probe::process::is_group("gua") == Some(true) => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let problem = format!("cannot create the system user `gua`: {}", said.trim());
            Err(Failure::failed(problem).hint(by_hand))
        }
        Err(error) => {
            let problem = "cannot run `systemd-sysusers` to create the system user `gua`";
            Err(Failure::because(problem)(error).hint(by_hand))
        }
    }
}

/// Removes the declaration. The user stays, because the history stays.
pub(super) fn forget(place: &Place) -> Result<(), Failure> {
    let path = declaration(place);
    match path.exists() && begins_with(&path, FIRST_LINE)? {
        true => remove_file(&path),
        false => Ok(()),
    }
}
