use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
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

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_has_its_name_when_it_is_complete() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a.csv");
    write(&path, b"one", Over::Refuse).unwrap();
    let refused = write(&path, b"two", Over::Refuse).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    write(&path, b"three", Over::Write).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    let begun = NewFile::begin(&home.path().join("b.csv"), Over::Write).unwrap();
    assert_eq!(names(home.path()).len(), 2);
    drop(begun);
    assert_eq!(names(home.path()), ["a.csv"]);
}

#[test]
fn the_error_of_a_missing_directory_does_not_name_the_temporary_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("missing/a.csv");
    let error = NewFile::begin(&path, Over::Refuse).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(error.to_string(), "No such file or directory (os error 2)");
}

#[test]
fn a_private_file_is_private_from_its_first_byte() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("secret");
    fs::write(&path, "").unwrap();
    let begun = NewFile::begin_private(&path, Over::Write).unwrap();
    assert_eq!(mode(begun.part()), 0o600);
    begun.finish().unwrap();
    assert_eq!(mode(&path), 0o600);
    write(&path, b"new", Over::Write).unwrap();
    assert_eq!(mode(&path), 0o600);
    replace(&path, b"newer", 0o640).unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn what_is_written_over_stays_what_it_was() {
    use std::io::Read as _;
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
    assert_eq!(mode(&at("secret")), 0o600);
    for name in ["link", "to-come"] {
        assert!(at(name).symlink_metadata().unwrap().is_symlink(), "{name}");
    }

    let pipe = at("pipe");
    mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
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
fn a_file_in_place_is_created_and_never_truncated() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    for line in ["one\n", "two\n"] {
        let mut file = open_own(&path, OpenOptions::new().append(true).truncate(false)).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    let written = OpenOptions::new().write(true).truncate(true).clone();
    open_own(&path, &written).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    symlink("log", home.path().join("link")).unwrap();
    open_own(&home.path().join("link"), OpenOptions::new().append(true)).unwrap();
    open_own(Path::new("/dev/null"), OpenOptions::new().append(true)).unwrap();
    let (from, _into) = io::pipe().unwrap();
    let kernel_link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
    open_own(
        Path::new(&kernel_link),
        OpenOptions::new().read(true).append(true),
    )
    .unwrap();
}

/// Files that another user can plant under the name of a file that gua writes. Needs root, because only root can give
/// files away.
#[test]
fn a_planted_file_link_or_pipe_of_another_user_is_refused() {
    if !gua_test::runs_as_root("files that another user planted") {
        return;
    }
    const NOBODY: u32 = 65534;
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::write(at("victim"), "kept").unwrap();
    symlink("victim", at("link")).unwrap();
    symlink("missing", at("dangling")).unwrap();
    symlink("/dev/null", at("device")).unwrap();
    fs::write(at("file"), "theirs").unwrap();
    mkfifoat(CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    for name in ["link", "dangling", "device", "file", "pipe"] {
        let path = at(name);
        std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        let refused = open_own(&path, OpenOptions::new().append(true)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "it belongs to another user (uid 65534)",
            "{name}"
        );
        if name != "file" {
            // A file is replaced and not opened, so its owner does not matter.
            write(&path, b"x", Over::Write).unwrap_err();
        }
    }
    write(&at("file"), b"new", Over::Write).unwrap();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
    assert!(!at("missing").exists());
}

#[test]
fn a_hard_link_in_a_directory_that_others_can_write_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::write(at("victim"), "kept").unwrap();
    fs::create_dir(at("open")).unwrap();
    fs::hard_link(at("victim"), at("open/log")).unwrap();
    let open = || open_own(&at("open/log"), OpenOptions::new().append(true));
    for (mode, is_refused) in [(0o755, false), (0o777, true), (0o1777, true), (0o775, true)] {
        fs::set_permissions(at("open"), Permissions::from_mode(mode)).unwrap();
        assert_eq!(open().is_err(), is_refused, "{mode:o}");
    }
    // Replacing gives the name to a new file, and leaves the other one alone.
    write(&at("open/log"), b"new", Over::Write).unwrap();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
}

#[test]
fn a_file_that_replaces_another_has_no_special_permissions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("page.html");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
    write(&path, b"new", Over::Write).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755);
}

#[test]
fn a_private_directory_has_its_mode_whatever_the_umask() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a/.gua");
    // nextest runs each test in a process of its own, so the umask of other tests does not change.
    let umask = rustix::process::umask(Mode::from_raw_mode(0o777));
    let made = make_private_directory(&path);
    rustix::process::umask(umask);
    made.unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    make_private_directory(&path).unwrap();
    assert_eq!(mode(&path), 0o755, "an existing one is left alone");
    fs::write(path.join("file"), "").unwrap();
    make_private_directory(&path.join("file/x")).unwrap_err();
}

#[test]
fn a_signal_removes_what_is_not_complete() {
    let home = tempfile::tempdir().unwrap();
    let (sender, heard) = channel();
    signals::watch([SIGUSR2].into_iter(), move |signal| {
        let _ = sender.send(signal);
    });
    let begun = NewFile::begin(&home.path().join("a.csv"), Over::Write).unwrap();
    let part = begun.part().to_owned();
    assert!(part.exists());
    kill_process(getpid(), Signal::USR2).unwrap();
    let signal = heard.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(signal, SIGUSR2);
    assert!(!part.exists());
}

#[test]
fn only_a_regular_file_of_limited_length_is_read() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    fs::write(&path, "12345").unwrap();
    assert_eq!(read_regular(&path, 5).unwrap(), b"12345");
    let long = read_regular(&path, 4).unwrap_err();
    assert_eq!(long.kind(), io::ErrorKind::FileTooLarge);
    let pipe = home.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    for (path, kind) in [
        (pipe.as_path(), "a pipe"),
        (home.path(), "a directory"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        let error = read_regular(path, 5).unwrap_err().to_string();
        assert_eq!(error, format!("it is {kind}, not a file"));
    }
}
