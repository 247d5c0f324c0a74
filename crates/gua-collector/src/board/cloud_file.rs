//! `cloud.json`, the enrolment of this host. It is only readable by its owner from its first byte on, and replaced
//! atomically.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use gua_wire::CloudConfig;
use gua_wire::cloud::CloudError;
use tempfile::NamedTempFile;

use super::state_file;

/// Maximum size that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Path of an enrolment file, which may not exist.
#[derive(Clone, Debug)]
pub struct CloudFile(PathBuf);

/// Why the enrolment cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no enrolment at `{}`", .0.display())]
    Missing(PathBuf),
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a valid enrolment", path.display())]
    Invalid { path: PathBuf, source: CloudError },
}

/// A temporary file beside the enrolment, ready to be filled and renamed.
#[derive(Debug)]
pub struct PreparedFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl CloudFile {
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a file of any kind exists at the path.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// Loads the enrolment.
    ///
    /// # Errors
    /// If the file is missing, unreadable or invalid.
    pub fn load(&self) -> Result<CloudConfig, LoadError> {
        let path = || self.0.clone();
        let mut bytes = Vec::new();
        File::open(&self.0)
            .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes))
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => LoadError::Missing(path()),
                _ => LoadError::Unreadable {
                    path: path(),
                    source,
                },
            })?;
        CloudConfig::read(&bytes).map_err(|source| LoadError::Invalid {
            path: path(),
            source,
        })
    }

    /// Creates the temporary file, so that an unwritable directory is detected before the token is spent.
    ///
    /// # Errors
    /// If the directory is not writable.
    pub fn prepare(&self) -> io::Result<PreparedFile> {
        if self.0.file_name().is_none() {
            let why = "the path has no file name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if let Some(directory) = self.0.parent() {
            std::fs::create_dir_all(directory)?;
        }
        Ok(PreparedFile {
            temporary: state_file::prepare(&self.0, 0o600)?,
            path: self.0.clone(),
        })
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

impl PreparedFile {
    /// Writes the enrolment and replaces the previous one.
    ///
    /// # Errors
    /// If it cannot be written. The previous enrolment is then unchanged.
    pub fn save(mut self, config: &CloudConfig) -> io::Result<()> {
        self.temporary.write_all(config.write().as_bytes())?;
        self.temporary.as_file().sync_all()?;
        let saved = self.temporary.persist(&self.path);
        saved.map_err(|error| error.error)?;
        // Syncs the rename, if the file system supports that.
        if let Some(directory) = self.path.parent()
            && let Ok(directory) = File::open(directory)
        {
            let _ = directory.sync_all();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use gua_wire::ClaimAnswer;
    use gua_wire::ServerUrl;

    use super::*;

    fn config() -> CloudConfig {
        let answer = br#"{"hostId":"h1","displayName":"lab 1","agentToken":"gua_agent_secret","tokenPrefix":"gua_agent_se"}"#;
        let url = ServerUrl::parse("https://board.example.com").unwrap();
        CloudConfig::enrolled(url, ClaimAnswer::read(answer).unwrap())
    }

    #[test]
    fn the_file_is_private_from_its_first_byte_and_replaced_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("state/cloud.json"));
        assert!(matches!(file.load(), Err(LoadError::Missing(_))));
        let prepared = file.prepare().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(prepared.temporary.path()), 0o600);
        assert!(!file.exists());
        prepared.save(&config()).unwrap();
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(file.load().unwrap(), config());

        // A second enrolment replaces it; an abandoned one does not.
        drop(file.prepare().unwrap());
        assert_eq!(file.load().unwrap(), config());
        file.prepare().unwrap().save(&config()).unwrap();
        let names = std::fs::read_dir(file.path().parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1);
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
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
        assert!(matches!(file.load(), Err(LoadError::Unreadable { .. })));
    }
}
