//! Finds the user directories, within limits that hold whatever a user has planted: memory and open files are bounded
//! per user, and only the owner of an entry beyond the limits is read.
//!
//! Limits apply per person, so that nobody's entries crowd out another's. An honest person has one user directory, and one
//! for each subordinate uid that their containers claim with, so none of their claims is left out, wherever it comes in
//! the directory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use gua_model::Uid;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, statat};
use rustix::io::Errno;

use crate::directory::{ClaimDir, Lock, only_owner_writes};
use crate::error::{ClaimError, Problem, Trouble};
use crate::user_dir::{UserDir, is_ours, open_beneath, random_word};

pub(crate) const USER_DIR_PREFIX: &str = "gua-claims-";

/// Maximum number of user directories opened for one person.
const MAX_USER_DIRS: usize = 64;

impl ClaimDir {
    /// Opens the user directories, of one user `only` or of all, one after the other, so that no user can exhaust our
    /// descriptors or memory. An entry that has the name of a user directory but is not one, or that exceeds the maximum
    /// number, is added to `problems`.
    pub(crate) fn user_dirs(
        &self,
        only: Option<Uid>,
        problems: &mut Vec<Problem>,
    ) -> Result<impl Iterator<Item = Result<UserDir, ClaimError>>, ClaimError> {
        let entries = Dir::read_from(self.handle()).map_err(|source| self.cannot_read(source))?;
        let mut met: HashMap<Uid, usize> = HashMap::new();
        Ok(entries.filter_map(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(source) => return Some(Err(self.cannot_read(source))),
            };
            let name = entry.file_name();
            if !name.to_bytes().starts_with(USER_DIR_PREFIX.as_bytes()) {
                return None;
            }
            // An error means that it was removed meanwhile.
            let facts = statat(self.handle(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let owner = Uid(facts.st_uid);
            if only.is_some_and(|user| user != owner) {
                return None;
            }
            let met = met.entry(self.person(owner)).or_default();
            *met += 1;
            if *met > MAX_USER_DIRS {
                if *met == MAX_USER_DIRS + 1 {
                    let name = name.to_string_lossy();
                    problems.push(Problem::new(owner, &name, Trouble::TooMany));
                }
                return None;
            }
            self.user_dir(name.to_str().ok()?, owner, problems)
                .transpose()
        }))
    }

    /// Returns the user directory of that name, if only its owner can have written it.
    fn user_dir(
        &self,
        name: &str,
        owner: Uid,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<UserDir>, ClaimError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = match open_beneath(self.handle(), name, flags) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) if is_ours(error) => return Err(self.cannot_read(error)),
            Err(error) => {
                problems.push(Problem::new(owner, name, Trouble::Closed(error)));
                return Ok(None);
            }
        };
        // Checks the opened directory: the name may refer to another one by now.
        let facts = fstat(&directory).map_err(|source| self.cannot_read(source))?;
        let owner = Uid(facts.st_uid);
        // The permissions of the caller's own directory are repaired when it is written to.
        if owner != self.me() && !only_owner_writes(facts.st_mode) {
            problems.push(Problem::new(owner, name, Trouble::Shared));
            return Ok(None);
        }
        Ok(Some(self.opened(owner, directory, name)))
    }

    fn opened(&self, owner: Uid, directory: OwnedFd, name: &str) -> UserDir {
        UserDir {
            owner,
            person: self.person(owner),
            directory,
            name: name.to_owned(),
        }
    }

    /// Returns the caller's own user directory, if it exists.
    pub(crate) fn existing_user_dir(&self) -> Result<Option<UserDir>, ClaimError> {
        for user_dir in self.user_dirs(Some(self.me()), &mut Vec::new())? {
            let user_dir = user_dir?;
            if user_dir.owner == self.me() {
                let opened = user_dir.open_to_readers();
                opened.map_err(|source| self.cannot_write(source))?;
                return Ok(Some(user_dir));
            }
        }
        Ok(None)
    }

    /// Returns the caller's own user directory and creates it if it does not exist; under the lock, so that there is
    /// never a second one.
    pub(crate) fn own_user_dir(&self, _lock: &Lock) -> Result<UserDir, ClaimError> {
        if let Some(user_dir) = self.existing_user_dir()? {
            return Ok(user_dir);
        }
        let fail = |source| self.cannot_write(source);
        let name = format!("{USER_DIR_PREFIX}{}{}", random_word(), random_word());
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(self.handle(), &name, mode).map_err(fail)?;
        // The umask may have removed permissions, even our own right to open it. No other user can have replaced it.
        rustix::fs::chmodat(self.handle(), &name, mode, AtFlags::empty()).map_err(fail)?;
        let directory =
            open_beneath(self.handle(), &name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
        Ok(self.opened(self.me(), directory, &name))
    }

    /// Returns the caller's own user directory. Needs the lock only to create it.
    pub(crate) fn user_dir_to_write(&self) -> Result<UserDir, ClaimError> {
        match self.existing_user_dir()? {
            Some(user_dir) => Ok(user_dir),
            None => self.own_user_dir(&self.lock()?),
        }
    }

    pub(crate) fn cannot_read(&self, source: Errno) -> ClaimError {
        self.cannot("read the claims in", source)
    }

    pub(crate) fn cannot_write(&self, source: Errno) -> ClaimError {
        self.cannot("write in the claims directory", source)
    }

    pub(crate) fn cannot(&self, what: &'static str, source: Errno) -> ClaimError {
        let path = self.path().to_owned();
        ClaimError::Directory { what, path, source }
    }
}
