//! The system user `gua`, which the host's service runs as, and whose group can read the history. It is declared for
//! systemd-sysusers(8), which creates it at boot, and created at once on the running system.

use std::path::{Path, PathBuf};
use std::process::Command;

use gua_model::failure::Failure;
use gua_probe::process::user_ids;

use super::ownership;
use super::place::{Place, Scope};
use super::unit::{FIRST_LINE, USER, system_user};
use super::units::{begins_with, remove_file, write_unit};

const DECLARATION: &str = "/etc/sysusers.d/gua.conf";

fn declaration(place: &Place) -> PathBuf {
    place.file(DECLARATION)
}

/// Rejects a history that cannot be given to the user. Changes nothing.
pub(super) fn admit(place: &Place, db: Option<&Path>) -> Result<(), Failure> {
    match db.filter(|_| place.scope == Scope::System && !place.is_image()) {
        Some(db) => ownership::admit(db, user_ids(USER)),
        None => Ok(()),
    }
}

/// Declares the user for the host's service. On the running system, creates it and gives it the history.
pub(super) fn create(place: &Place, db: Option<&Path>) -> Result<(), Failure> {
    if place.scope != Scope::System {
        return Ok(());
    }
    let path = declaration(place);
    write_unit(&path, &system_user())?;
    if place.is_image() {
        return Ok(());
    }
    let by_hand = "create it with `useradd --system --user-group --shell /usr/sbin/nologin gua`, then try again";
    let done = Command::new("systemd-sysusers").arg(&path).output();
    let ids = match (user_ids(USER), done) {
        (Some(ids), _) => ids,
        (None, Ok(done)) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let problem = format!("cannot create the system user `gua`: {}", said.trim());
            return Err(Failure::failed(problem).hint(by_hand));
        }
        (None, Err(error)) => {
            let problem = "cannot run `systemd-sysusers` to create the system user `gua`";
            return Err(Failure::because(problem)(error).hint(by_hand));
        }
    };
    db.map_or(Ok(()), |db| ownership::give(db, ids))
}

/// Removes the declaration. The user stays, because the history stays.
pub(super) fn forget(place: &Place) -> Result<(), Failure> {
    let path = declaration(place);
    match path.exists() && begins_with(&path, FIRST_LINE)? {
        true => remove_file(&path),
        false => Ok(()),
    }
}
