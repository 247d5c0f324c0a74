//! `gua top` in a real terminal: tmux types, looks and changes the size. The driver is the simulated one.
#![cfg(test)]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gua_probe::clock;
use nvml_sim::driver::{self, Generation};

const TWO_CARDS: &str = "[[card]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 50\n[[card]]\nuuid = \"GPU-b\"\nname = \"NVIDIA A100\"\n";

struct Host {
    home: tempfile::TempDir,
    library: PathBuf,
}

impl Host {
    fn new(scenario: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let library = driver::install(home.path(), Generation::LATEST).unwrap();
        let host = Self { home, library };
        host.play(scenario);
        host
    }

    fn play(&self, scenario: &str) {
        nvml_sim::scenario::write_text(&self.home.path().join("nvml-sim.toml"), scenario).unwrap();
    }

    /// The variables that `gua` runs with, in the form of env(1).
    fn variables(&self) -> Vec<String> {
        let home = self.home.path().display();
        vec![
            format!("HOME={home}"),
            format!("GUA_NVML_LIBRARY={}", self.library.display()),
            format!("TMUX_TMPDIR={home}"),
            "PATH=/usr/bin:/bin".to_owned(),
            "TZ=UTC".to_owned(),
            "LC_ALL=C.UTF-8".to_owned(),
            "GUA_DRIVER_DEADLINE=500ms".to_owned(),
        ]
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let variables = self.variables();
        let pairs = variables.iter().filter_map(|pair| pair.split_once('='));
        command.env_clear().envs(pairs).stdin(Stdio::null());
        command
    }

    fn gua(&self, line: &str) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_gua"));
        command.args(line.split_whitespace()).output().unwrap()
    }

    /// Runs `gua top` in a terminal of this size, and leaves its exit code on the screen.
    fn top(&self, arguments: &str, size: (u16, u16)) -> Terminal<'_> {
        let gua = env!("CARGO_BIN_EXE_gua");
        self.terminal(
            &format!("{gua} top {arguments}; echo \"code=$?\"; exec cat"),
            size,
        )
    }

    fn terminal(&self, shell: &str, (columns, rows): (u16, u16)) -> Terminal<'_> {
        let terminal = Terminal { host: self };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&[
            "new-session",
            "-d",
            "-s",
            "top",
            "-x",
            &columns,
            "-y",
            &rows,
            shell,
        ]);
        terminal
    }
}

/// One terminal, and the tmux that plays it.
struct Terminal<'a> {
    host: &'a Host,
}

impl Terminal<'_> {
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.host.command("tmux");
        let output = command
            .args(["-u", "-f", "/dev/null"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "top"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "top"])
    }

    /// Waits until the screen shows something.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let limit = clock::monotonic() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(
                clock::monotonic() < limit,
                "waited for `{what}`; the screen shows\n{screen}"
            );
            std::thread::yield_now();
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.host.command("tmux").arg("kill-server").output();
    }
}

/// Killed with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn card(&self) -> String {
        format!(
            "[[card]]\nuuid = \"GPU-a\"\nutil = 0\n[[card.process]]\npid = {}\nmemory_mib = 2048\n",
            self.0.id()
        )
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn q_quits_and_gives_the_terminal_back() {
    for key in ["q", "Escape", "C-c"] {
        let host = Host::new(TWO_CARDS);
        let terminal = host.top("", (80, 24));
        let screen = terminal.shows("1 active");
        assert!(
            screen.contains("1 truly-idle") && screen.contains("q quit"),
            "{screen}"
        );
        terminal.keys(&[key]);
        let screen = terminal.shows("code=0");
        assert!(!screen.contains("q quit"), "{screen}");
        let flags = terminal.tmux(&[
            "display-message",
            "-p",
            "-t",
            "top",
            "#{alternate_on}#{cursor_flag}",
        ]);
        assert_eq!(flags.trim(), "01", "the old screen, and the cursor");
    }
}

#[test]
fn after_a_stop_that_cannot_be_caught_the_screen_is_taken_again() {
    let host = Host::new(TWO_CARDS);
    let gua = env!("CARGO_BIN_EXE_gua");
    let pid = host.home.path().join("pid");
    // As an interactive shell does: it has the terminal while its job is stopped, and sets it to its liking.
    let start = format!(
        "bash -c 'echo $$ >{0}.new; mv {0}.new {0}; exec {gua} top'",
        pid.display()
    );
    let shell = format!(
        "set -m; {start}; stty sane; printf '\\033[?1049l\\033[?25h'; echo the shell; read -r line; fg; echo \"code=$?\"; exec cat"
    );
    let script = host.home.path().join("shell");
    std::fs::write(&script, shell).unwrap();
    let terminal = host.terminal(&format!("exec bash {}", script.display()), (80, 24));
    terminal.shows("1 active");
    let pid = std::fs::read_to_string(pid).unwrap();
    let stopped = host.command("kill").args(["-STOP", pid.trim()]).status();
    assert!(stopped.unwrap().success());
    terminal.shows("the shell");
    terminal.keys(&["Enter"]);
    terminal.shows("1 active");
    let flags = [
        "display-message",
        "-p",
        "-t",
        "top",
        "#{alternate_on}#{cursor_flag}",
    ];
    terminal.until("its own screen", |_| terminal.tmux(&flags).trim() == "10");
    // Without raw mode a key would wait for the end of its line.
    terminal.keys(&["q"]);
    terminal.shows("code=0");
    assert_eq!(terminal.tmux(&flags).trim(), "01");
}

#[test]
fn a_user_who_may_have_no_more_threads_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED, because the tests do not run as root: a limit of another user");
        return;
    }
    let host = Host::new(TWO_CARDS);
    let mode = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(host.home.path(), mode()).unwrap();
    // The build directory may be closed to other users.
    let gua = host.home.path().join("gua");
    std::fs::copy(env!("CARGO_BIN_EXE_gua"), &gua).unwrap();
    std::fs::set_permissions(&gua, mode()).unwrap();
    let limited = "setpriv --reuid 20666 --clear-groups prlimit --nproc=1";
    let line = format!(
        "{limited} {} top --fake; echo \"code=$?\"; exec cat",
        gua.display()
    );
    let terminal = host.terminal(&line, (100, 24));
    let screen = terminal.shows("code=");
    assert!(screen.contains("code=1"), "{screen}");
    assert!(screen.contains("gua top: cannot"), "{screen}");
}

#[test]
fn another_size_is_another_picture() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (120, 40));
    terminal.shows("JOB/POD/CONTAINER");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "20", "-y", "10"]);
    let screen = terminal.until("a narrow picture", |screen| {
        screen.lines().all(|line| line.chars().count() <= 20) && screen.contains("GPU USER")
    });
    assert!(screen.contains("truly-idle"), "{screen}");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "150", "-y", "30"]);
    terminal.shows("JOB/POD/CONTAINER");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn an_own_process_is_signalled_after_a_confirmation_and_not_before() {
    let mut sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let pid = sleeper.0.id();
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("idle-held");
    terminal.shows("sleep");
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["n"]);
    terminal.shows("nothing was sent");
    assert!(sleeper.lives());
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["y"]);
    terminal.shows(&format!("TERM was sent to {pid}"));
    let status = sleeper.0.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    terminal.keys(&["t"]);
    terminal.shows("(gone)");
}

#[test]
fn read_only_signals_nobody() {
    let mut sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let terminal = host.top("--readonly", (80, 24));
    terminal.shows("sleep");
    terminal.keys(&["x", "y"]);
    terminal.keys(&["x"]);
    terminal.shows("read-only");
    assert!(sleeper.lives());
}

#[test]
fn made_up_processes_cannot_be_signalled() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--fake", (80, 24));
    terminal.shows("live");
    terminal.keys(&["x"]);
    terminal.shows("made-up processes cannot be signalled");
}

#[test]
fn a_lost_card_is_shown_as_lost() {
    let lost = "[[card]]\nuuid = \"GPU-a\"\nutil = 50\n[[card]]\nlost = [[0, inf]]\n";
    let host = Host::new(lost);
    let text = String::from_utf8(host.gua("top --once").stdout).unwrap();
    assert!(text.contains("1 other"), "{text}");
    assert!(text.contains("unobserved  the card is lost"), "{text}");
    let terminal = host.top("", (80, 24));
    terminal.shows("the card is lost");
}

#[test]
fn a_hung_driver_is_told_and_keys_still_work() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n"
    ));
    terminal.shows("driver does not answer since");
    terminal.keys(&["?"]);
    terminal.shows("keys and words");
    terminal.keys(&["Escape"]);
    terminal.until("no help", |screen| !screen.contains("keys and words"));
    host.play(TWO_CARDS);
    terminal.until("an answer", |screen| !screen.contains("does not answer"));
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn a_driver_that_hangs_from_the_start_can_be_left() {
    let host = Host::new(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n"
    ));
    let terminal = host.top("", (80, 24));
    terminal.shows("driver's first answer");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn cards_come_and_go() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play("[[card]]\nuuid = \"GPU-b\"\nutil = 90\n[[card]]\nuuid = \"GPU-c\"\nutil = 91\n[[card]]\nuuid = \"GPU-d\"\nutil = 92\n");
    terminal.shows("3 active");
    host.play(
        "[[card]]\nuuid = \"GPU-c\"\nlost = [[0, inf]]\n[[card]]\nuuid = \"GPU-d\"\nutil = 92\n",
    );
    terminal.until("a lost card beside one at work", |screen| {
        screen.contains("the card is lost") && screen.contains("1 active")
    });
    host.play("");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn a_shell_stops_it_and_brings_it_back() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.terminal("exec bash --norc --noprofile -i", (80, 24));
    let gua = env!("CARGO_BIN_EXE_gua");
    terminal.keys(&[
        "-l",
        &format!("PS1=; {gua} top --interval 200ms; echo code=$?"),
    ]);
    terminal.keys(&["Enter"]);
    terminal.shows("q quit");
    terminal.keys(&["C-z"]);
    terminal.shows("Stopped");
    terminal.keys(&["-l", "fg"]);
    terminal.keys(&["Enter"]);
    terminal.shows("q quit");
    terminal.keys(&["?"]);
    terminal.shows("keys and words");
    terminal.keys(&["C-c"]);
    terminal.until("the shell again", |screen| !screen.contains("q quit"));
}

#[test]
fn signals_end_it_in_good_order() {
    for signal in ["TERM", "INT", "HUP"] {
        let host = Host::new(TWO_CARDS);
        let gua = env!("CARGO_BIN_EXE_gua");
        let file = host.home.path().join("pid");
        let shell = format!(
            "sh -c 'echo $$ > {}; exec {gua} top'; echo \"code=$?\"; exec cat",
            file.display()
        );
        let terminal = host.terminal(&shell, (80, 24));
        terminal.shows("q quit");
        let pid = std::fs::read_to_string(&file).unwrap();
        let killed = Command::new("kill")
            .args([&format!("-{signal}"), pid.trim()])
            .status()
            .unwrap();
        assert!(killed.success());
        let screen = terminal.shows("code=0");
        assert!(!screen.contains("q quit"), "{signal}: {screen}");
    }
}

#[test]
fn the_recorded_history_can_be_scrolled_into() {
    let sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let home = host.home.path().to_owned();
    let log = std::fs::File::create(home.join("log")).unwrap();
    let mut daemon = Sleeper(
        host.command(env!("CARGO_BIN_EXE_gua"))
            .args(["daemon", "--foreground", "--interval", "100ms"])
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let limit = clock::monotonic() + Duration::from_secs(30);
    while std::fs::read_to_string(home.join("log"))
        .unwrap()
        .lines()
        .count()
        < 8
    {
        assert!(clock::monotonic() < limit && daemon.lives());
        std::thread::yield_now();
    }
    let gua = env!("CARGO_BIN_EXE_gua");
    let db = home.join(".gua/gua.db");
    let terminal = host.terminal(&format!("exec {gua} top --db {}", db.display()), (100, 24));
    terminal.shows("idle-held");
    terminal.until("recorded ticks", |screen| {
        terminal.keys(&["Left"]);
        screen.contains("RECORDED")
    });
    terminal.keys(&["n"]);
    terminal.until("now", |screen| screen.contains(" live "));
}

#[test]
fn without_a_terminal_it_points_at_once() {
    let host = Host::new(TWO_CARDS);
    let output = host.gua("top");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("gua top --once"));
    let output = host.gua("top --once");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text.contains("active") && text.contains("NVIDIA A100"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let coloured = host.gua("top --once --fake --color always");
    assert!(String::from_utf8_lossy(&coloured.stdout).contains('\u{1b}'));
}

#[test]
fn without_a_driver_it_ends_with_one_and_a_hint() {
    let mut host = Host::new("");
    host.library = "/nonexistent/libnvidia-ml.so.1".into();
    let output = host.gua("top --once");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: install the NVIDIA driver"));
    let terminal = host.top("", (80, 24));
    let screen = terminal.shows("code=1");
    assert!(screen.contains("NVML initialization failed"), "{screen}");
    let output = host.gua("top --interval 1ms");
    assert_eq!(output.status.code(), Some(2));
}
