//! Files that gua must not trust: those of other users for root, pipes and devices without an end, and planted files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use gua_test::{Ended, runs_as_root, wait_until};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::{GUA, TWO_GPUS, host};

const NOBODY: u32 = 65534;

fn pipe(path: &Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o666)).unwrap();
}

/// Runs a command that must end by itself within the time, and not wait for a pipe or read without an end.
#[track_caller]
fn ends(mut command: Command) -> Ended {
    let mut limited = Command::new("timeout");
    limited
        .args(["--kill-after=1", "20"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    limited.current_dir(command.get_current_dir().unwrap());
    let shown = format!("{command:?}");
    command = limited;
    let ended = Ended::from(command.output().unwrap());
    assert!(![124, 137].contains(&ended.code), "does not end: {shown}");
    ended
}

#[test]
fn root_uses_no_configuration_and_no_library_that_another_user_can_change() {
    if !runs_as_root("files of another user") {
        return;
    }
    let host = host(TWO_GPUS);
    // The home directory of a user, as `sudo -E` leaves it.
    let state = host.path(".gua");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("config.toml"), "").unwrap();
    chown(&state, Some(NOBODY), None).unwrap();
    let image = host.path("image");
    let install = format!("service install --system --root {}", image.display());
    for line in ["daemon", "daemon --foreground --db x.db", &install] {
        let refused = ends(host.gua_command(line));
        assert_eq!(refused.code, 2, "{line}: {refused:?}");
        let expected = format!(
            "`{0}/config.toml` is not trusted: `{0}` belongs to user 65534",
            state.display()
        );
        assert!(refused.stderr.contains(&expected), "{line}: {refused:?}");
        assert!(refused.stderr.contains("hint: "), "{line}: {refused:?}");
        assert!(!image.exists() && !host.path("x.db").exists(), "{line}");
    }
    chown(&state, Some(0), None).unwrap();
    fs::set_permissions(state.join("config.toml"), Permissions::from_mode(0o666)).unwrap();
    let refused = ends(host.gua_command(&install));
    let why = "can be written by everyone";
    assert!(refused.stderr.contains(why), "{refused:?}");
    fs::set_permissions(state.join("config.toml"), Permissions::from_mode(0o644)).unwrap();
    host.fine(&install);

    // The library, for every command that loads it.
    chown(host.library(), Some(NOBODY), None).unwrap();
    let refused = ends(host.gua_command("list"));
    assert_eq!(refused.code, 1, "{refused:?}");
    let why = "belongs to user 65534";
    assert!(
        refused.stderr.contains("root does not load it"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains(why), "{refused:?}");
    for line in ["daemon --foreground --db x.db", &install] {
        let refused = ends(host.gua_command(line));
        assert!(refused.stderr.contains(why), "{line}: {refused:?}");
    }
}

#[test]
fn pipes_and_endless_files_are_refused_wherever_a_file_is_read() {
    let host = host(TWO_GPUS);
    pipe(&host.path("pipe"));
    for path in ["pipe", "/dev/zero"] {
        for line in [
            "summarize PATH",
            "sync-once --config PATH",
            "enroll --server-url https://127.0.0.1:9 --enrollment-token x --ca-file PATH",
            "report --db PATH",
            "import PATH",
            "import --from gpu_stats PATH",
            "db check --db PATH",
            "status --pid-file PATH",
            "stop --pid-file PATH",
        ] {
            let line = line.replace("PATH", path);
            let ended = ends(host.gua_command(&line));
            let is_about_a_daemon = line.contains("--pid-file");
            assert!(ended.code != 0 || is_about_a_daemon, "{line}: {ended:?}");
        }
        let mut command = host.gua_command("config show");
        command.env("GUA_CONFIG", path);
        assert_ne!(ends(command).code, 0);
    }
}

#[test]
fn a_run_writes_nothing_to_what_another_user_planted() {
    if !runs_as_root("files of another user") {
        return;
    }
    for name in [
        "run.jsonl",
        "hw_metrics.csv",
        "cpu_metrics.csv",
        "summary.json",
    ] {
        let host = host(TWO_GPUS);
        let (victim, out) = (host.path("victim"), host.path("out"));
        fs::write(&victim, "kept").unwrap();
        fs::create_dir(&out).unwrap();
        chown(&out, Some(NOBODY), None).unwrap();
        let path = out.join(name);
        for kind in ["link", "pipe"] {
            match kind {
                "link" => symlink(&victim, &path).unwrap(),
                _ => pipe(&path),
            }
            lchown(&path, Some(NOBODY), None).unwrap();
            let mut command = host.gua_command("run --out out -- true");
            command.env("GUA_CLAIM_DIR", host.path("claims"));
            let ended = ends(command);
            assert_ne!(ended.code, 0, "{kind} {name}: {ended:?}");
            assert!(ended.stderr.contains("another user"), "{name}: {ended:?}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "{name}");
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_does_not_end_the_daemon() {
    let host = host(TWO_GPUS);
    let mut command = host.command("bash");
    command
        .args(["-c", "ulimit -f 300; exec \"$0\" \"$@\"", GUA])
        .args("daemon --foreground --interval 5ms".split_whitespace());
    let mut daemon = host.start(command);
    wait_until("a write error in the log", || {
        daemon.stderr().contains("disk I/O error")
    });
    let before = daemon.stdout().lines().count();
    wait_until("more ticks", || {
        daemon.stdout().lines().count() > before + 20
    });
    assert!(daemon.child.try_wait().unwrap().is_none(), "still running");
    daemon.stop();
    host.fine("db check");
}

#[test]
fn the_state_directory_is_private_whatever_the_umask() {
    let host = host(TWO_GPUS);
    let mut command = host.command("sh");
    command.args(["-c", "umask 0; exec \"$0\" daemon --interval 1h", GUA]);
    let ended = Ended::from(command.output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    let mode = fs::metadata(host.path(".gua"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    host.fine("stop");
    let mut other = host.command("sh");
    other.args([
        "-c",
        "umask 0; exec \"$0\" quota set --everyone --held 10h --per month",
        GUA,
    ]);
    other.env("HOME", host.path("tmp"));
    let ended = Ended::from(other.output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    let mode = fs::metadata(host.path("tmp/.gua"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}
