//! Messages to systemd (sd_notify), received on a real socket.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::{TWO_GPUS, host};
use gua_test::{TestHost, wait_for};

/// Next datagram that is not a watchdog keep-alive.
fn next(socket: &UnixDatagram) -> String {
    loop {
        let output = receive(socket);
        if output != "WATCHDOG=1" {
            return output;
        }
    }
}

fn receive(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).expect("a datagram for systemd");
    let datagram = String::from_utf8(buffer[..length].to_vec()).unwrap();
    datagram.trim_end().to_owned()
}

fn listen(host: &TestHost) -> UnixDatagram {
    let socket = UnixDatagram::bind(host.path("notify")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

#[test]
fn systemd_receives_ready_reloading_and_stopping() {
    let mut host = host(TWO_GPUS);
    let socket = listen(&host);
    let path = host.path("notify").display().to_string();
    host = host.variable("NOTIFY_SOCKET", &path);
    let mut daemon = host.foreground("daemon --foreground --interval 1h");
    assert_eq!(next(&socket), "READY=1");
    assert_eq!(host.ticks(".gua/gua.db").len(), 1, "ready with a tick");
    daemon.signal(Signal::HUP);
    let reloading = next(&socket);
    let when = reloading
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .unwrap();
    assert!(when.parse::<u64>().unwrap() > 0);
    assert_eq!(next(&socket), "READY=1");
    daemon.stop();
    assert_eq!(next(&socket), "STOPPING=1");
}

#[test]
fn the_watchdog_is_notified_at_half_its_timeout_even_while_the_driver_hangs() {
    let mut host = host(TWO_GPUS);
    let socket = listen(&host);
    let path = host.path("notify").display().to_string();
    host = host
        .variable("NOTIFY_SOCKET", &path)
        .variable("WATCHDOG_USEC", "200000")
        .variable("GUA_DRIVER_DEADLINE", "1h");
    let mut daemon = host.foreground("daemon --foreground --interval 50ms");
    assert_eq!(next(&socket), "READY=1");
    host.play("[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGet*\"\nhang = true\n");
    let began = gua_probe::clock::monotonic();
    for _ in 0..10 {
        assert_eq!(receive(&socket), "WATCHDOG=1");
    }
    let took = gua_probe::clock::monotonic() - began;
    assert!(
        took > Duration::from_millis(700),
        "twice per timeout: {took:?}"
    );
    daemon.stop();
    assert_eq!(next(&socket), "STOPPING=1");
}

#[test]
fn a_watchdog_for_another_process_and_a_dead_socket_are_ignored() {
    let mut host = host(TWO_GPUS);
    let socket = listen(&host);
    let path = host.path("notify").display().to_string();
    host = host
        .variable("NOTIFY_SOCKET", &path)
        .variable("WATCHDOG_USEC", "1000")
        .variable("WATCHDOG_PID", "1");
    let mut daemon = host.foreground("daemon --foreground --interval 1h");
    assert_eq!(receive(&socket), "READY=1");
    daemon.stop();
    assert_eq!(receive(&socket), "STOPPING=1");
    drop(socket);
    std::fs::remove_file(host.path("notify")).unwrap();
    let mut daemon = host.foreground("daemon --foreground --interval 1h");
    wait_for("a tick", || {
        (host.ticks(".gua/gua.db").len() >= 2).then_some(())
    });
    daemon.stop();
}

#[test]
fn lines_for_the_journal_have_a_priority() {
    let host = host(TWO_GPUS);
    let mut command = host.command("sh");
    let line = r#"JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$0" daemon --foreground --interval 1h"#;
    command.arg("-c").arg(line).arg(host.program());
    let mut daemon = host.start(command);
    wait_for("the daemon has started", || {
        daemon.stderr().contains("daemon started").then_some(())
    });
    daemon.stop();
    let said = daemon.stderr();
    assert!(said.lines().all(|line| line.starts_with("<6>")), "{said}");
}
