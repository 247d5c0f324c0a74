//! `gua run` in a real terminal, with a shell that has job control: tmux types and reads the screen.

use super::host;
use crate::GUA;
use gua_test::{Terminal, TestHost};
/// A shell with job control.
fn shell(host: &TestHost) -> Terminal<'_> {
    let shell = "exec env PS1='ready> ' bash --norc --noprofile -i";
    let terminal = Terminal::new(host, shell, (100, 30));
    terminal.shows("ready>");
    terminal
}

#[test]
fn the_job_has_the_terminal_and_receives_typed_text_once() {
    let host = host("[[gpu]]\n");
    let script = "trap 'n=$((n+1))' INT; test -t 0 && test -t 1 && echo has-tty; read word; echo got-$word; \
                  while [ -z \"$n\" ]; do sleep 0.1; done; sleep 0.3; echo interrupted-$n; exit 3";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = shell(&host);
    terminal.line(&format!("{GUA} run -q -- bash job; echo code=$?"));
    terminal.shows("has-tty");
    terminal.line("hello");
    terminal.shows("got-hello");
    terminal.keys(&["C-c"]);
    let screen = terminal.shows("code=3");
    assert!(screen.contains("interrupted-1"), "{screen}");
}

#[test]
fn the_shell_can_stop_and_continue_the_job() {
    let host = host("[[gpu]]\n");
    let script = "echo began; while [ ! -e stop ]; do sleep 0.05; done; echo over; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = shell(&host);
    terminal.line(&format!("{GUA} run -q -- bash job; echo code=$?"));
    terminal.shows("began");
    terminal.keys(&["C-z"]);
    terminal.shows("Stopped");
    terminal.line("fg");
    std::fs::write(host.path("stop"), "").unwrap();
    terminal.shows("over");
}

#[test]
fn a_job_that_stops_itself_stops_gua_and_both_continue() {
    let host = host("[[gpu]]\n");
    let script = "echo began; kill -TSTP $$; echo goes-on; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = shell(&host);
    terminal.line(&format!("{GUA} run -q -- bash job"));
    terminal.shows("Stopped");
    terminal.line("fg");
    terminal.shows("goes-on");
}

#[test]
fn a_job_stopped_in_a_terminal_and_continued_alone_runs_to_its_end() {
    let host = host("[[gpu]]\n");
    let script = "( while ! grep -q ') T ' /proc/$$/stat; do sleep 0.05; done; \
                  n=$(wc -l < out/cpu_metrics.csv); \
                  while [ $(wc -l < out/cpu_metrics.csv) -lt $((n+3)) ]; do sleep 0.05; done; kill -CONT $$ ) & \
                  kill -STOP $$; echo goes-on; wait; exit 4";
    std::fs::write(host.path("job"), script).unwrap();
    let terminal = shell(&host);
    terminal.line(&format!(
        "{GUA} run -q --out out --interval 20ms -- bash job; echo code=$?"
    ));
    let screen = terminal.shows("code=4");
    assert!(screen.contains("goes-on"), "{screen}");
}
