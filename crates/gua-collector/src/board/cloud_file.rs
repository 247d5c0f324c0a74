//! `cloud.json`, the enrolment of this host. It is only readable by its owner from its first byte on, and replaced
//! atomically.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gua_files::{FileError, NewFile, Over};
use gua_wire::CloudConfig;

use super::enrolment::EnrolmentError;

/// Maximum size that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Path of an enrolment file, which may not exist.
#[derive(Clone, Debug)]
pub struct CloudFile(PathBuf);

impl CloudFile {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a file of any kind exists at the path.
    pub fn exists(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// Loads the enrolment.
    ///
    /// # Errors
    /// If the file is missing, unreadable or invalid.
    pub fn load(&self) -> Result<CloudConfig, EnrolmentError> {
        let bytes = gua_files::read_regular(&self.0, MAX_BYTES);
        let bytes = bytes.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => EnrolmentError::Missing(self.0.clone()),
            _ => EnrolmentError::Unreadable(FileError::cannot("read", &self.0)(source)),
        })?;
        CloudConfig::read(&bytes).map_err(|source| EnrolmentError::Invalid {
            path: self.0.clone(),
            source,
        })
    }

    /// Creates the temporary file, so that an unwritable directory is detected before the token is spent.
    ///
    /// # Errors
    /// If the directory is not writable.
    pub fn prepare(&self) -> io::Result<NewFile> {
        gua_files::make_private_directory(gua_files::directory(&self.0))?;
        NewFile::begin_private(&self.0, Over::Write)
    }

    /// Locks the enrolment against other processes that replace its token, until the result is dropped. The lock is a file of
    /// its own, because each change replaces the enrolment. Returns `None` if another process has the lock.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        let path = self.0.with_file_name(format!(".{name}.lock"));
        let file = gua_files::open_own(&path, OpenOptions::new().write(true).mode(0o600))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the enrolment; returns whether it existed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> io::Result<bool> {
        match std::fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Writes the enrolment to the prepared file, which replaces the previous one.
///
/// # Errors
/// If it cannot be written. The previous enrolment is then unchanged.
pub fn save(prepared: NewFile, config: &CloudConfig) -> io::Result<()> {
    (&prepared.file).write_all(config.write().as_bytes())?;
    prepared.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use gua_wire::ServerUrl;

    use super::*;

    fn config() -> CloudConfig {
        let answer = br#"{"hostId":"h1","displayName":"lab 1","agentToken":"gua_agent_secret","tokenPrefix":"gua_agent_se"}"#;
        let url = ServerUrl::parse("https://board.example.com").unwrap();
        CloudConfig::enrolled(url, answer, None).unwrap()
    }

    #[test]
    fn the_file_is_private_from_its_first_byte_and_replaced_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("state/cloud.json"));
        assert!(matches!(file.load(), Err(EnrolmentError::Missing(_))));
        let prepared = file.prepare().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(prepared.part()), 0o600);
        assert!(!file.exists());
        save(prepared, &config()).unwrap();
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(file.load().unwrap(), config());

        // A second enrolment replaces it; an abandoned one does not.
        drop(file.prepare().unwrap());
        assert_eq!(file.load().unwrap(), config());
        save(file.prepare().unwrap(), &config()).unwrap();
        let names = std::fs::read_dir(file.path().parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1);
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
    }

    #[test]
    fn one_process_at_a_time_replaces_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("cloud.json"));
        let held = file.try_lock().unwrap();
        assert!(held.is_some() && file.try_lock().unwrap().is_none());
        drop(held);
        assert!(file.try_lock().unwrap().is_some());
    }

    #[test]
    fn errors_do_not_contain_values_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("cloud.json"));
        std::fs::write(file.path(), r#"{"agentToken":"gua_agent_secret"}"#).unwrap();
        let error = file.load().unwrap_err();
        let message = gua_model::chain::chain(&error);
        assert!(message.ends_with("is not a valid enrolment: the cloud config cannot be used: fields are missing, empty or not a string: serverUrl, hostId, displayName, tokenPrefix"), "{message}");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        assert!(matches!(
            file.load(),
            Err(EnrolmentError::Unreadable { .. })
        ));
    }
}
