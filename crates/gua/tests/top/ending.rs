//! However it exits or stops, the terminal is restored.

use gua_test::runs_as_root;
use std::path::Path;
use std::process::Command;

use super::{TWO_GPUS, host, top};
use crate::{GUA, without_driver};
use gua_test::Terminal;

#[test]
fn q_quits_and_restores_the_terminal() {
    for key in ["q", "Escape", "C-c"] {
        let host = host(TWO_GPUS);
        let terminal = top(&host, "", (80, 24));
        let screen = terminal.shows("1 active");
        assert!(
            screen.contains("1 free") && screen.contains("q quit"),
            "{screen}"
        );
        terminal.keys(&[key]);
        let screen = terminal.shows("code=0");
        assert!(!screen.contains("q quit"), "{screen}");
        assert_eq!(terminal.flags(), "01", "the main screen with its cursor");
    }
}

#[test]
fn after_sigstop_the_screen_is_taken_again() {
    let host = host(TWO_GPUS);
    let gua = GUA;
    let pid = host.path("pid");
    // An interactive shell does the same: it owns the terminal while its job is stopped, and changes its modes.
    let start = format!(
        "bash -c 'echo $$ >{0}.new; mv {0}.new {0}; exec {gua} top'",
        pid.display()
    );
    let shell = format!(
        "set -m; {start}; stty sane; printf '\\033[?1049l\\033[?25h'; echo the shell; read -r line; fg; echo \"code=$?\"; exec cat"
    );
    let script = host.path("shell");
    std::fs::write(&script, shell).unwrap();
    let terminal = Terminal::new(&host, &format!("exec bash {}", script.display()), (80, 24));
    terminal.shows("1 active");
    let pid = std::fs::read_to_string(pid).unwrap();
    let stopped = host.command("kill").args(["-STOP", pid.trim()]).status();
    assert!(stopped.unwrap().success());
    terminal.shows("the shell");
    terminal.keys(&["Enter"]);
    terminal.shows("1 active");
    terminal.until("its own screen", |_| terminal.flags() == "10");
    // Without raw mode a key would wait for the end of its line.
    terminal.keys(&["q"]);
    terminal.shows("code=0");
    assert_eq!(terminal.flags(), "01");
}

#[test]
fn a_user_at_the_thread_limit_gets_a_message() {
    if !runs_as_root("a limit of another user") {
        return;
    }
    let host = host(TWO_GPUS);
    let mode = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(host.directory(), mode()).unwrap();
    // The build directory may be closed to other users.
    let gua = host.path("gua");
    std::fs::copy(GUA, &gua).unwrap();
    std::fs::set_permissions(&gua, mode()).unwrap();
    let limited = "setpriv --reuid 20666 --clear-groups prlimit --nproc=1";
    let line = format!(
        "{limited} {} top --fake; echo \"code=$?\"; exec cat",
        gua.display()
    );
    let terminal = Terminal::new(&host, &line, (100, 24));
    let screen = terminal.shows("code=");
    assert!(screen.contains("code=1"), "{screen}");
    assert!(screen.contains("gua top: cannot"), "{screen}");
}

#[test]
fn a_driver_that_hangs_from_the_start_does_not_block_quitting() {
    let host = host(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n"
    ));
    let terminal = top(&host, "", (80, 24));
    terminal.shows("driver's first response");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn a_shell_can_stop_and_continue_it() {
    let host = host(TWO_GPUS);
    let terminal = Terminal::new(&host, "exec bash --norc --noprofile -i", (80, 24));
    let gua = GUA;
    terminal.line(&format!("PS1=; {gua} top --interval 200ms; echo code=$?"));
    terminal.shows("q quit");
    terminal.keys(&["C-z"]);
    terminal.shows("Stopped");
    terminal.line("fg");
    terminal.shows("q quit");
    terminal.keys(&["?"]);
    terminal.shows("keys and words");
    terminal.keys(&["C-c"]);
    terminal.until("the shell again", |screen| !screen.contains("q quit"));
}

#[test]
fn signals_end_it_cleanly() {
    for signal in ["TERM", "INT", "HUP"] {
        let host = host(TWO_GPUS);
        let gua = GUA;
        let file = host.path("pid");
        let shell = format!(
            "sh -c 'echo $$ > {}; exec {gua} top'; echo \"code=$?\"; exec cat",
            file.display()
        );
        let terminal = Terminal::new(&host, &shell, (80, 24));
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
fn without_a_terminal_it_points_to_once() {
    let host = host(TWO_GPUS);
    let output = host.gua("top");
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("gua top --once"));
    let output = host.gua("top --once");
    let text = output.stdout;
    assert_eq!(output.code, 0);
    assert!(
        text.contains("active") && text.contains("NVIDIA A100"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let coloured = host.gua("top --once --fake --color always");
    assert!(coloured.stdout.contains('\u{1b}'));
}

#[test]
fn without_a_driver_it_exits_with_1_and_a_hint() {
    let host = without_driver();
    let output = host.gua("top --once");
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("hint: install the NVIDIA driver"));
    let terminal = top(&host, "", (80, 24));
    let screen = terminal.shows("code=1");
    assert!(screen.contains("NVML initialization failed"), "{screen}");
    let output = host.gua("top --interval 1ms");
    assert_eq!(output.code, 2);
}

#[test]
fn a_panic_in_a_thread_ends_it_and_is_printed_on_the_main_screen() {
    let host = host(TWO_GPUS);
    let gua = Path::new(GUA);
    let program = gua.with_file_name("examples").join("top_that_panics");
    assert!(program.exists(), "build it: cargo build -p gua --examples");
    let line = format!("{}; echo \"code=$?\"; exec cat", program.display());
    let terminal = Terminal::new(&host, &line, (160, 24));
    let screen = terminal.shows("code=");
    assert!(screen.contains("code=1"), "{screen}");
    assert!(
        screen.contains("gua top: thread sampler panicked at"),
        "{screen}"
    );
    assert!(
        screen.contains("the third sample is one too many"),
        "{screen}"
    );
    assert!(!screen.contains("q quit"), "{screen}");
    assert_eq!(terminal.flags(), "01", "the main screen with its cursor");
}
