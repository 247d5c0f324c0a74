//! Atomic file writes: a reader sees either the old file or the complete new one. If the program ends early, also by a
//! signal, no partial file is left behind.
//!
//! Overwriting keeps the kind of file: a symbolic link stays a link, a file keeps its mode, and pipes and devices are
//! written to directly.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Whether an existing file may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Refuse,
    Write,
}

impl Over {
    /// Converts the flag `--overwrite`.
    pub fn of(overwrite: bool) -> Self {
        if overwrite { Over::Write } else { Over::Refuse }
    }

    /// Whether a path may be written, to be asked before the work is done.
    #[must_use]
    pub fn allows(self, path: &Path) -> bool {
        self == Over::Write || path.symlink_metadata().is_err()
    }
}

/// Writes a file in one call.
pub fn write(path: &Path, bytes: &[u8], over: Over) -> io::Result<()> {
    let whole = WholeFile::begin(path, over)?;
    (&whole.file).write_all(bytes)?;
    whole.finish()
}

/// File that is being written.
#[derive(Debug)]
pub struct WholeFile {
    pub file: File,
    path: PathBuf,
    over: Over,
    until_whole: UntilWhole,
}

/// Location of the bytes until the file is complete.
#[derive(Debug)]
enum UntilWhole {
    /// File without a name (`O_TMPFILE`).
    Unnamed,
    /// Temporary file with a name.
    Named(Part),
    /// The destination itself: a pipe or a device cannot be replaced.
    There,
}

impl WholeFile {
    /// Starts a file, without a name if the file system supports this.
    pub fn begin(path: &Path, over: Over) -> io::Result<Self> {
        Self::begin_with(path, over, |path| match unnamed(path) {
            Some(file) => Ok((file, UntilWhole::Unnamed)),
            None => named(path),
        })
    }

    fn begin_with(
        path: &Path,
        over: Over,
        make: impl Fn(&Path) -> io::Result<(File, UntilWhole)>,
    ) -> io::Result<Self> {
        let begun = |path: PathBuf, (file, until_whole)| Self {
            file,
            path,
            over,
            until_whole,
        };
        if over == Over::Refuse {
            return Ok(begun(path.to_owned(), make(path)?));
        }
        match fs::metadata(path) {
            Ok(facts) if facts.is_file() => {
                let path = path.canonicalize()?;
                let begun = begun(path.clone(), make(&path)?);
                // Only root can change the owner; other users write their own files.
                let _ = fchown(&begun.file, Some(facts.uid()), Some(facts.gid()));
                begun.allow(facts.permissions())?;
                Ok(begun)
            }
            Ok(_) => {
                let file = File::options().write(true).open(path)?;
                Ok(begun(path.to_owned(), (file, UntilWhole::There)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
                // A symbolic link to a file that does not exist yet.
                Ok(target) => Self::begin_with(&directory(path).join(target), over, make),
                Err(_) => Ok(begun(path.to_owned(), make(path)?)),
            },
            Err(error) => Err(error),
        }
    }

    pub fn allow(&self, permissions: Permissions) -> io::Result<()> {
        self.file.set_permissions(permissions)
    }

    /// Syncs the file to disk and gives it its name.
    pub fn finish(self) -> io::Result<()> {
        if let UntilWhole::There = self.until_whole {
            return Ok(());
        }
        self.file.sync_all()?;
        let path = &self.path;
        match (&self.until_whole, self.over) {
            (UntilWhole::There, _) => {}
            (UntilWhole::Unnamed, Over::Refuse) => name_it(&self.file, path)?,
            (UntilWhole::Unnamed, Over::Write) => {
                // linkat(2) does not replace an existing file, so the new file gets a temporary name first.
                let part = Part::new(beside(path), &OF_THIS_PROCESS);
                name_it(&self.file, &part.name)?;
                fs::rename(&part.name, path)?;
            }
            (UntilWhole::Named(part), Over::Write) => fs::rename(&part.name, path)?,
            // A hard link fails if the file was created in the meantime; a rename would overwrite it.
            (UntilWhole::Named(part), Over::Refuse) => match fs::hard_link(&part.name, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) => fs::rename(&part.name, path)?,
                Ok(()) => {}
            },
        }
        // Sync the directory entry too. File systems that cannot sync a directory do this themselves.
        if let Ok(directory) = File::open(directory(path)) {
            let _ = directory.sync_all();
        }
        Ok(())
    }
}

fn named(path: &Path) -> io::Result<(File, UntilWhole)> {
    let part = Part::new(beside(path), &OF_THIS_PROCESS);
    Ok((File::create(&part.name)?, UntilWhole::Named(part)))
}

/// Creates a file without a name in the directory of `path`; `None` if this is not supported.
fn unnamed(path: &Path) -> Option<File> {
    // The file gets its name through /proc/self/fd.
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    open(directory(path), flags, mode).ok().map(File::from)
}

fn name_it(file: &File, path: &Path) -> io::Result<()> {
    let here = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, &here, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Path of the temporary file: hidden, in the same directory, and unique to this process.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Partial files that other code creates and then removes or renames; a signal removes them too.
#[derive(Debug)]
pub struct Parts(#[expect(dead_code, reason = "it is there to be dropped")] Vec<Part>);

impl Parts {
    pub fn of(names: Vec<PathBuf>) -> Self {
        let parts = names.into_iter();
        Self(
            parts
                .map(|name| Part::new(name, &OF_THIS_PROCESS))
                .collect(),
        )
    }
}

/// Name of a partial file, which is removed on drop or when a signal ends the program.
#[derive(Debug)]
struct Part {
    name: PathBuf,
    among: Arc<Unfinished>,
}

impl Part {
    fn new(name: PathBuf, among: &Arc<Unfinished>) -> Self {
        among.lock().insert(name.clone());
        let among = Arc::clone(among);
        Self { name, among }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A renamed file no longer exists under this name. Other errors matter less than the one before.
        let _ = fs::remove_file(&self.name);
        self.among.lock().remove(&self.name);
    }
}

/// Names of the files that a signal removes.
#[derive(Debug, Default)]
struct Unfinished(Mutex<BTreeSet<PathBuf>>);

/// Partial files of this process. Signal handlers are per process and cannot be uninstalled, so there is only one.
static OF_THIS_PROCESS: LazyLock<Arc<Unfinished>> = LazyLock::new(|| {
    // Signals that this process was started to ignore, such as by nohup(1), stay ignored.
    let ignored = ignored_signals();
    let mut handled = vec![SIGINT, SIGTERM, SIGHUP];
    handled.retain(|signal| ignored & (1 << (signal - 1)) == 0);
    Unfinished::watched(&handled, |signal| {
        let _ = emulate_default_handler(signal);
    })
});

/// The signals that this process ignores, one bit each from signal 1 on (proc_pid_status(5)).
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

impl Unfinished {
    /// Installs handlers that remove the files and then call `then`. If handlers cannot be installed, the signals end
    /// the program as usual.
    fn watched(signals: &[i32], then: impl Fn(i32) + Send + 'static) -> Arc<Self> {
        let all = Arc::new(Self::default());
        if let Ok(mut signals) = Signals::new(signals) {
            let all = Arc::clone(&all);
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    for name in &*all.lock() {
                        let _ = fs::remove_file(name);
                    }
                    then(signal);
                }
            });
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};
    use signal_hook::consts::SIGUSR2;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Test of one kind of temporary file; both kinds must give the same result.
    #[track_caller]
    fn check(begin: fn(&Path, Over) -> io::Result<WholeFile>) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.csv");
        let write = |text: &str, over| {
            let whole = begin(&path, over).unwrap();
            (&whole.file).write_all(text.as_bytes()).unwrap();
            whole.finish()
        };
        write("one", Over::Refuse).unwrap();
        let refused = write("two", Over::Refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write("three", Over::Write).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        drop(begin(&home.path().join("b.csv"), Over::Write).unwrap());
        assert_eq!(names(home.path()), ["a.csv"]);
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_with_and_without_a_name_before() {
        check(WholeFile::begin);
        check(|path, over| WholeFile::begin_with(path, over, named));
    }

    #[test]
    fn what_is_written_over_stays_what_it_was() {
        use std::io::Read as _;
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let link = |name: &str, to: &str| symlink(to, at(name)).unwrap();

        fs::write(at("secret"), "one").unwrap();
        fs::set_permissions(at("secret"), Permissions::from_mode(0o600)).unwrap();
        link("link", "secret");
        link("to-come", "new");
        for (name, target) in [("secret", "secret"), ("link", "secret"), ("to-come", "new")] {
            write(&at(name), name.as_bytes(), Over::Write).unwrap();
            assert_eq!(fs::read_to_string(at(target)).unwrap(), name);
        }
        let mode = fs::metadata(at("secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for name in ["link", "to-come"] {
            assert!(at(name).symlink_metadata().unwrap().is_symlink(), "{name}");
        }

        let pipe = at("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe)?.read_to_string(&mut text)?;
                io::Result::Ok(text)
            }
        });
        write(&pipe, b"through", Over::Write).unwrap();
        assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap().unwrap(), "through");

        write(Path::new("/dev/null"), b"gone", Over::Write).unwrap();
        let expected = ["link", "new", "pipe", "secret", "to-come"];
        assert_eq!(names(home.path()), expected);
    }

    #[test]
    fn a_signal_takes_away_what_is_not_whole() {
        let home = tempfile::tempdir().unwrap();
        let name = home.path().join(".a.csv.part");
        fs::write(&name, "half").unwrap();
        let (sender, heard) = channel();
        let all = Unfinished::watched(&[SIGUSR2], move |signal| {
            let _ = sender.send(signal);
        });
        let part = Part::new(name.clone(), &all);
        kill_process(getpid(), Signal::USR2).unwrap();
        let signal = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(signal, SIGUSR2);
        assert!(!name.exists());
        drop(part);
    }
}
