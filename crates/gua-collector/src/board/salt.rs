//! The secret salts of user pseudonyms: private files that are created at first use. One is for the names that are sent to a
//! board, another for the names that other users of this host see.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gua_model::failure::Failure;
use gua_wire::users::Salt;

use crate::make_directory_of;

/// Size of a new salt: 256 bits.
const NEW_BYTES: usize = 32;
const MAX_BYTES: u64 = 4096;

/// Loads the salt; trailing whitespace is ignored. Creates it if it does not exist.
pub(crate) fn load(path: &Path) -> Result<Salt, Failure> {
    if read(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        make_directory_of(path)?;
        create(path, 0o600).map_err(Failure::cannot("create salt", path))?;
    }
    existing(path)
}

/// Loads a salt that another process creates.
pub(crate) fn existing(path: &Path) -> Result<Salt, Failure> {
    let bytes = read(path).map_err(Failure::cannot("read salt", path))?;
    Salt::new(bytes.trim_ascii_end()).map_err(Failure::cannot("read salt", path))
}

/// Creates a salt that the group of its directory can read, unless there is one.
pub(crate) fn create_for_group(path: &Path) -> io::Result<()> {
    match path.exists() {
        true => Ok(()),
        false => create(path, 0o640),
    }
}

/// Path of the salt for the pseudonyms that the service shows: beside its history.
pub(crate) fn of_history(db: &Path) -> PathBuf {
    db.with_file_name("pseudonyms.salt")
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    gua_files::read_regular(path, MAX_BYTES)
}

/// Creates the file with random hexadecimal digits, which are easy to copy. Succeeds if another process creates it first.
fn create(path: &Path, mode: u32) -> io::Result<()> {
    let mut random = [0; NEW_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    match created {
        Ok(mut file) => file.write_all(format!("{digits}\n").as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_salt_is_created_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/cloud.salt");
        let first = load(&path).unwrap();
        assert_eq!(load(&path).unwrap(), first);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().len(), 2 * NEW_BYTES + 1);
        std::fs::write(&path, "short\n").unwrap();
        assert!(load(&path).is_err());
    }
}
