//! The secret salt of user pseudonyms: a private file that is created at first use.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gua_model::failure::Failure;
use gua_wire::users::Salt;

use crate::make_directory_of;

/// Size of a new salt: 256 bits.
const NEW_BYTES: usize = 32;
const MAX_BYTES: u64 = 4096;

/// Loads the salt; trailing whitespace is ignored. Creates it if it does not exist.
pub(super) fn load(path: &Path) -> Result<Salt, Failure> {
    let what = || format!("cannot read salt `{}`", path.display());
    let bytes = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory_of(path)?;
            let created = create(path).and_then(|()| read(path));
            created.map_err(Failure::because(format!(
                "cannot create salt `{}`",
                path.display()
            )))?
        }
        read => read.map_err(Failure::because(what()))?,
    };
    Salt::new(bytes.trim_ascii_end()).map_err(Failure::because(what()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates the file with random hexadecimal digits, which are easy to copy. Succeeds if another process creates it first.
fn create(path: &Path) -> io::Result<()> {
    let mut random = [0; NEW_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
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
