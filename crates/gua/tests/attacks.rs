//! Hostile users of a host: each attack is run by other users against root's daemon, and none stops the recording, forges
//! anything in it or reads what is private.
//!
//! `attacks/attack.py` is the table of attacks. Each prints what it achieved; that must be nothing. `scripts/soak hostile`
//! repeats them for ten minutes, while root also holds the lock of the history and fills its disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gua_model::{GapReason, OwnerKey};
use gua_probe::clock;
use gua_test::{Ended, Running, TestHost, not_tested, python, runs_as_root, wait_until};

use crate::{GUA, TWO_GPUS};

const NOBODY: u32 = 65534;
const USERS: [u32; 2] = [NOBODY, 20_666];
const ADA: u32 = 2294;
const DB: &str = "service/gua.db";

/// Every attack of `attack.py`.
const ATTACKS: [&str; 19] = [
    "read_the_files",
    "lock_the_shared_memory",
    "hold_a_read_transaction",
    "move_the_history",
    "delete_the_history",
    "truncate_the_history",
    "link_to_the_history",
    "plant_files_beside_the_history",
    "replace_the_socket",
    "signal_the_daemon",
    "ask_as_root",
    "occupy_the_socket",
    "send_garbage",
    "plant_links_and_fifos_in_the_claims",
    "forge_tickets_and_claims",
    "fill_the_claims",
    "fill_the_history_with_runs",
    "hold_the_lock_of_the_claims",
    "forge_a_login_uid",
];

/// Root's daemon on a host that others can use.
struct Fortress {
    daemon: Running,
    /// Unmounted before the host's directory is removed.
    disk: Option<Mounted>,
    host: TestHost,
}

impl Fortress {
    fn new() -> Self {
        Self::on(|_| None)
    }

    /// Starts the daemon; `mount` may mount a disk for its history.
    fn on(mount: impl FnOnce(&Path) -> Option<Mounted>) -> Self {
        let host = TestHost::new(GUA, TWO_GPUS);
        host.open_to_users();
        let directory = host.path("service");
        fs::create_dir(&directory).unwrap();
        let disk = mount(&directory);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(directory.join("pseudonyms.salt"), "0123456789abcdef\n").unwrap();
        let db = host.path(DB);
        let host = host
            .variable("GUA_SOCKET", host_socket(&db))
            .variable("GUA_SERVICE_DB", db);
        let mut command = host.gua_command("daemon --foreground --interval 200ms --append");
        command.arg("--db").arg(host.path(DB));
        let daemon = host.start(command);
        let fortress = Self { daemon, disk, host };
        wait_until("ticks", || fortress.taken() > 2);
        wait_until("the socket", || fortress.socket().exists());
        fortress
    }

    fn socket(&self) -> PathBuf {
        host_socket(&self.host.path(DB))
    }

    /// Lines that the daemon has printed, one for each tick that it took, whether or not it is stored.
    fn taken(&self) -> usize {
        self.daemon.stdout().lines().count()
    }

    fn attack(&self, user: u32, name: &str) -> Child {
        let mut command = self.host.command(python::system());
        command.arg(self.host.path("attack.py")).arg(name);
        command.arg(self.host.path(DB)).arg(self.socket());
        command.arg(self.host.path("claims"));
        command.arg(self.daemon.child.id().to_string());
        command.uid(user).gid(user);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn gua_as(&self, user: u32, line: &str) -> Ended {
        let mut command = self.host.command(self.host.path("gua"));
        command.args(line.split_whitespace()).uid(user).gid(user);
        command.output().unwrap().into()
    }

    /// Stops the daemon and checks that every tick it took is in the history, on schedule. Returns their number.
    #[track_caller]
    fn nothing_is_lost(&mut self) -> usize {
        self.daemon.stop();
        let ticks = self.host.ticks(DB);
        let log = self.daemon.stderr();
        let taken = format!("stopping ({} ticks)", ticks.len());
        assert!(log.contains(&taken), "{} are stored: {log}", ticks.len());
        // A busy machine may let the daemon come too late for a tick, and a virtual machine may set its clock. No attack does
        // either.
        let of_machine = [
            GapReason::CollectorDown,
            GapReason::Suspended,
            GapReason::ClockSet,
        ];
        let mut outages = self.host.outages(DB).into_iter();
        let lost = outages.find(|outage| !of_machine.contains(&outage.reason));
        assert_eq!(lost, None, "{log}");
        let db = self.host.path(DB);
        let checked = self.host.gua(&format!("db check --db {}", db.display()));
        assert_eq!(checked.code, 0, "{checked:?}");
        ticks.len()
    }
}

/// The socket is beside the directory of the history.
fn host_socket(db: &Path) -> PathBuf {
    db.parent().unwrap().with_file_name("gua.sock")
}

fn write_attacks(fortress: &Fortress) {
    fortress
        .host
        .write("attack.py", include_str!("attacks/attack.py"));
}

#[track_caller]
fn failed(name: &str, user: u32, attack: Child) {
    let ended = Ended::from(attack.wait_with_output().unwrap());
    let achieved = (ended.code, ended.stdout.as_str());
    assert_eq!(achieved, (0, ""), "{name} by {user}: {ended:?}");
}

#[test]
fn no_attack_of_another_user_stops_forges_or_reads() {
    if !runs_as_root("attacks by other users") {
        return;
    }
    let mut fortress = Fortress::new();
    write_attacks(&fortress);
    for name in ATTACKS {
        for user in USERS {
            let taken = fortress.taken();
            let attack = fortress.attack(user, name);
            if name == "occupy_the_socket" {
                // The others are answered meanwhile.
                let report = fortress.gua_as(ADA, "report --since 1h");
                let log = fortress.daemon.stderr();
                assert_eq!(report.code, 0, "{report:?}\n{log}");
            }
            failed(name, user, attack);
            wait_until("ticks go on", || fortress.taken() >= taken + 2);
        }
    }
    // The size of the records from users is bounded, however many files they leave in their directories.
    let size = fs::metadata(fortress.host.path(DB)).unwrap().len();
    assert!(size < 4 << 20, "{size}");
    let ticks = fortress.nothing_is_lost();
    eprintln!(
        "{} attacks by {} users, {ticks} ticks",
        ATTACKS.len(),
        USERS.len()
    );
}

#[test]
fn every_command_that_only_reads_works_for_everyone() {
    if !runs_as_root("commands of other users") {
        return;
    }
    let mut fortress = Fortress::new();
    let db = fortress.host.path(DB);
    let asks_by_path = format!("report --since 1h --db {}", db.display());
    for line in [
        "list",
        "available",
        "top --once",
        "explain 0",
        "report --since 1h",
        &asks_by_path,
        "plot --since 1h",
        "statement",
        "export --what samples",
        "export --what processes --format jsonl",
        "export --what sessions",
        "export --what totals",
        "export --what user-totals",
        "quota show",
        "quota show --formula percent",
        "runs list",
        "me",
        "me --motd",
        "claim list",
        "status",
        "db stats",
    ] {
        for user in USERS {
            let ended = fortress.gua_as(user, line);
            assert_eq!(ended.code, 0, "{line} by {user}: {ended:?}");
            assert!(!ended.stderr.contains("denied"), "{line}: {ended:?}");
        }
    }
    fortress.nothing_is_lost();
}

#[test]
fn commands_that_change_the_history_are_refused_to_others() {
    if !runs_as_root("commands of other users") {
        return;
    }
    let mut fortress = Fortress::new();
    let db = fortress.host.path(DB);
    for line in [
        "db forget ada --yes",
        "db vacuum",
        "db repair",
        "db set-aside --yes",
        "db backup stolen.db",
        "import gua",
        "daemon --foreground --append",
    ] {
        let refused = fortress.gua_as(NOBODY, &format!("{line} --db {}", db.display()));
        assert_ne!(refused.code, 0, "{line}: {refused:?}");
    }
    fortress.nothing_is_lost();
}

#[test]
fn a_forged_login_uid_charges_nobody_else() {
    if !runs_as_root("a login uid that another user forged") {
        return;
    }
    let mut fortress = Fortress::new();
    let mut command = Command::new("sh");
    // A process may set a login uid that is not set.
    let script = format!("echo {ADA} > /proc/self/loginuid; exec sleep 600");
    command.args(["-c", &script]).uid(NOBODY).gid(NOBODY);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut forger = command.spawn().unwrap();
    let pid = forger.id();
    fortress.host.play(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu.process]]\npid = {pid}\nmemory_mib = 512\n"
    ));
    let owner = || {
        let tick = fortress.host.ticks(DB).pop()?;
        let process = tick.sample.gpus.first()?.processes.first()?.clone();
        let identity = process.identity.ok()?;
        (identity.comm.as_deref() == Ok("sleep")).then(|| identity.owner())?
    };
    let mut found = None;
    wait_until("the process on the GPU", || {
        found = owner();
        found.is_some()
    });
    forger.kill().unwrap();
    forger.wait().unwrap();
    match found.unwrap().who {
        OwnerKey::User(user) => assert_eq!(user.uid.0, NOBODY),
        other => panic!("{other:?}"),
    }
    fortress.host.play(TWO_GPUS);
    fortress.nothing_is_lost();
}

/// Time of the soak.
fn length() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller selects the long mode of this test"
    )]
    let asked = std::env::var("GUA_HOSTILE_SECONDS");
    let seconds = asked.map_or(12, |text| text.parse().expect("whole seconds"));
    Duration::from_secs(seconds)
}

/// Holds the lock of the writer for a time, as a member of the service's group can.
const HOLD_LOCK: &str = "import fcntl, sys, time
file = open(sys.argv[1] + '-shm', 'rb')
fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)
time.sleep(float(sys.argv[2]))";

/// Keeps a read transaction open for a time.
const HOLD_TRANSACTION: &str = "import sqlite3, sys, time
history = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)
history.execute('BEGIN')
history.execute('SELECT count(*) FROM tick').fetchall()
time.sleep(float(sys.argv[2]))";

/// Fills the file system of the history for a time.
const FILL_DISK: &str = "import os, sys, time
name = sys.argv[1] + '.ballast'
with open(name, 'wb', buffering=0) as file:
    size = 1 << 20
    while size:
        try:
            file.write(b'x' * size)
        except OSError:
            size //= 2
time.sleep(float(sys.argv[2]))
os.unlink(name)";

#[test]
fn hostile_locks_planted_files_and_full_disks_lose_no_tick() {
    if !runs_as_root("hostile users for a long time") {
        return;
    }
    let mut fortress = Fortress::on(Mounted::small);
    write_attacks(&fortress);
    let has_disk = fortress.disk.is_some();
    let until = clock::monotonic() + length();
    let db = fortress.host.path(DB);
    let as_root = |script: &str| {
        let mut command = fortress.host.command(python::system());
        command.args(["-c", script]).arg(&db).arg("1.5");
        command.spawn().unwrap()
    };
    let mut attacks = 0;
    let mut places = (0..ATTACKS.len()).cycle();
    while clock::monotonic() < until {
        let scripts = [HOLD_LOCK, HOLD_TRANSACTION, FILL_DISK];
        let scripts = scripts.iter().take(if has_disk { 3 } else { 2 });
        for script in scripts {
            let mut obstacle = as_root(script);
            for user in USERS {
                let name = ATTACKS[places.next().unwrap_or_default()];
                failed(name, user, fortress.attack(user, name));
                attacks += 1;
            }
            assert!(obstacle.wait().unwrap().success(), "{script}");
            attacks += 1;
        }
    }
    let before = fortress.taken();
    wait_until("ticks after it all", || fortress.taken() >= before + 5);
    let ticks = fortress.nothing_is_lost();
    eprintln!(
        "{attacks} attacks in {} s, {ticks} ticks taken and stored, none lost",
        length().as_secs()
    );
}

/// A file system that is unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a file system of 16 MB, where that is possible.
    fn small(directory: &Path) -> Option<Self> {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "gua-test"])
            .arg(directory)
            .status();
        let is_mounted = mount.is_ok_and(|status| status.success());
        if !is_mounted {
            not_tested("no mounts here", "a full disk");
        }
        is_mounted.then(|| Self(directory.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}
