//! `gua run` in a real terminal, with a shell that has job control: tmux types and looks.

use std::time::Duration;

use gua_probe::clock;

use crate::host::{GUA, Host};

struct Terminal<'a>(&'a Host);

impl Terminal<'_> {
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.0.command("tmux");
        let output = command
            .args(["-u", "-f", "/dev/null"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn open(host: &Host) -> Terminal<'_> {
        let terminal = Terminal(host);
        let shell = "exec env PS1='ready> ' bash --norc --noprofile -i";
        terminal.tmux(&[
            "new-session",
            "-d",
            "-s",
            "t",
            "-x",
            "100",
            "-y",
            "30",
            shell,
        ]);
        terminal.wait("ready>");
        terminal
    }

    fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "t", "-l", text]);
        self.key("Enter");
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "t", key]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "t"])
    }

    #[track_caller]
    fn wait(&self, text: &str) -> String {
        let end = clock::monotonic() + Duration::from_secs(60);
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(
                clock::monotonic() < end,
                "no {text:?} on the screen:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.0.command("tmux").arg("kill-server").output();
    }
}

#[test]
fn the_job_has_the_terminal_and_what_is_typed_reaches_it_once() {
    let host = Host::new("[[card]]\n");
    let script = "trap 'n=$((n+1))' INT; test -t 0 && test -t 1 && echo has-tty; read word; echo got-$word; \
                  while [ -z \"$n\" ]; do sleep 0.1; done; sleep 0.3; echo interrupted-$n; exit 3";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = Terminal::open(&host);
    terminal.line(&format!("{GUA} run -q -- bash job; echo code=$?"));
    terminal.wait("has-tty");
    terminal.line("hello");
    terminal.wait("got-hello");
    terminal.key("C-c");
    let screen = terminal.wait("code=3");
    assert!(screen.contains("interrupted-1"), "{screen}");
}

#[test]
fn the_shell_can_stop_the_job_and_take_it_up_again() {
    let host = Host::new("[[card]]\n");
    let script = "echo began; while [ ! -e stop ]; do sleep 0.05; done; echo over; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = Terminal::open(&host);
    terminal.line(&format!("{GUA} run -q -- bash job; echo code=$?"));
    terminal.wait("began");
    terminal.key("C-z");
    terminal.wait("Stopped");
    terminal.line("fg");
    std::fs::write(host.path("stop"), "").unwrap();
    terminal.wait("over");
}

#[test]
fn a_job_that_stops_itself_stops_us_and_is_continued_with_us() {
    let host = Host::new("[[card]]\n");
    let script = "echo began; kill -TSTP $$; echo goes-on; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = Terminal::open(&host);
    terminal.line(&format!("{GUA} run -q -- bash job"));
    terminal.wait("Stopped");
    terminal.line("fg");
    terminal.wait("goes-on");
}

#[test]
fn a_job_that_is_halted_in_a_terminal_and_continued_alone_goes_on_to_its_end() {
    let host = Host::new("[[card]]\n");
    let script = "( while ! grep -q ') T ' /proc/$$/stat; do sleep 0.05; done; \
                  n=$(wc -l < out/cpu_metrics.csv); \
                  while [ $(wc -l < out/cpu_metrics.csv) -lt $((n+3)) ]; do sleep 0.05; done; kill -CONT $$ ) & \
                  kill -STOP $$; echo goes-on; wait; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = Terminal::open(&host);
    terminal.line(&format!(
        "{GUA} run -q --out out --interval 20ms -- bash job; echo code=$?"
    ));
    let screen = terminal.wait("code=4");
    assert!(screen.contains("goes-on"), "{screen}");
}
