//! `cloud.json` on disk. It is its owner's alone from its first byte, and always whole: written beside, then renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gua_wire::CloudConfig;
use gua_wire::cloud::CloudError;

/// No enrolment is as long as this.
const LONGEST: u64 = 1 << 20;

/// The file of an enrolment, there or not.
#[derive(Clone, Debug)]
pub struct CloudFile(PathBuf);

/// Why there is no enrolment to be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("there is no enrolment at `{}`", .0.display())]
    Missing(PathBuf),
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` is no enrolment", path.display())]
    Faulty { path: PathBuf, source: CloudError },
}

/// A file that is made and not yet filled: who has one can save.
#[derive(Debug)]
pub struct Place {
    file: File,
    beside: PathBuf,
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

    /// Whether anything has this name, whatever it is.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// # Errors
    /// When it is missing, cannot be read, or is no enrolment.
    pub fn load(&self) -> Result<CloudConfig, LoadError> {
        let path = || self.0.clone();
        let mut bytes = Vec::new();
        File::open(&self.0)
            .and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => LoadError::Missing(path()),
                _ => LoadError::Unreadable {
                    path: path(),
                    source,
                },
            })?;
        CloudConfig::read(&bytes).map_err(|source| LoadError::Faulty {
            path: path(),
            source,
        })
    }

    /// Makes the file beside, so that a place where nothing can be written is known before a token is spent.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn prepare(&self) -> io::Result<Place> {
        let name = self
            .0
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let beside = self.0.with_file_name(hidden);
        if let Some(directory) = self.0.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // One of a process that died, which had our number.
        let _ = std::fs::remove_file(&beside);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        Ok(Place {
            file,
            beside,
            path: self.0.clone(),
        })
    }

    /// Forgets the enrolment. Returns whether there was one.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> io::Result<bool> {
        match std::fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Place {
    /// Puts the enrolment into its place.
    ///
    /// # Errors
    /// When the disk does not take it. What was there before is then still there.
    pub fn save(mut self, config: &CloudConfig) -> io::Result<()> {
        self.file.write_all(config.write().as_bytes())?;
        self.file.sync_all()?;
        std::fs::rename(&self.beside, &self.path)?;
        // The name is on disk as well, where the file system can tell.
        if let Some(directory) = self.path.parent()
            && let Ok(directory) = File::open(directory)
        {
            let _ = directory.sync_all();
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Gone already when it was saved.
        let _ = std::fs::remove_file(&self.beside);
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
    fn the_file_is_its_owners_alone_from_its_first_byte_and_never_half() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("state/cloud.json"));
        assert!(matches!(file.load(), Err(LoadError::Missing(_))));
        let place = file.prepare().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place.beside), 0o600);
        assert!(!file.is_there());
        place.save(&config()).unwrap();
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(file.load().unwrap(), config());

        // A second one replaces it; one that is given up leaves it.
        drop(file.prepare().unwrap());
        assert_eq!(file.load().unwrap(), config());
        file.prepare().unwrap().save(&config()).unwrap();
        let names = std::fs::read_dir(file.path().parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1);
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
    }

    #[test]
    fn what_is_wrong_with_it_is_told_without_its_values() {
        let directory = tempfile::tempdir().unwrap();
        let file = CloudFile::at(directory.path().join("cloud.json"));
        std::fs::write(file.path(), r#"{"agentToken":"gua_agent_secret"}"#).unwrap();
        let error = file.load().unwrap_err();
        let told = crate::chain::chain(&error);
        assert!(told.ends_with("is no enrolment: the cloud config cannot be used: fields are missing, empty or no text: serverUrl, hostId, displayName, tokenPrefix"), "{told}");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        assert!(matches!(file.load(), Err(LoadError::Unreadable { .. })));
    }
}
