//! A board that serves over TLS with a certificate of its own, and hosts that pin it.

use gua_test::{Running, TestHost, wait_for};
use rustix::process::{Pid, Signal, kill_process};

use super::served::url;
use crate::{TWO_GPUS, host, without_driver};

/// A board with its own certificate: home, process, URL and pin.
struct Encrypted {
    home: TestHost,
    running: Running,
    url: String,
    pin: String,
}

fn start() -> Encrypted {
    let home = without_driver();
    let running = home.foreground("board serve --listen 127.0.0.1:0 --tls");
    let url = url(&running);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let said = running.stdout();
    let pin = said.split("--pin ").nth(1).unwrap();
    let pin = pin.lines().next().unwrap().to_owned();
    Encrypted {
        home,
        running,
        url,
        pin,
    }
}

impl Encrypted {
    fn enrol_line(&self, pin: &str) -> String {
        let token = self.home.fine("board enroll-token --name lab");
        let url = &self.url;
        format!("enroll --server-url {url} {pin} --enrollment-token {token}")
    }
}

#[test]
fn a_host_that_pins_the_boards_certificate_enrols_pushes_and_streams() {
    let board = start();
    let host = host(TWO_GPUS);
    host.fine(&board.enrol_line(&format!("--pin {}", board.pin)));
    assert!(host.read(".gua/cloud.json").contains(&board.pin));
    let said = host.fine("sync-once");
    assert!(said.contains("pushed 2 GPUs to lab"), "{said}");
    let mut daemon = host.foreground("daemon --foreground --cloud --interval 200ms");
    wait_for("the stream", || {
        daemon.stderr().contains("stream connected").then_some(())
    });
    daemon.stop();

    // A person trusts the certificate as that of an authority.
    let mut add = board
        .home
        .gua_command("board user add ada --role owner --password-stdin");
    let mut child = add.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, super::served::PASSWORD.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    let token = board.home.fine("board api-token --user ada");
    let person = without_driver().variable("GUA_BOARD_TOKEN", token.trim());
    let certificate = board.home.path(".gua/board/certificate.pem");
    person.write(
        ".gua/config.toml",
        format!("cloud.ca_file = \"{}\"\n", certificate.display()),
    );
    let free = person.fine(&format!("available --board {}", board.url));
    assert_eq!(free, "lab:1\n");
}

#[test]
fn another_certificate_than_the_pinned_one_is_refused_before_a_token_is_sent() {
    let mut board = start();
    let check = |host: &TestHost, line: &str, expected: &str| {
        let ended = host.gua(line);
        assert_eq!(ended.code, 1, "{line}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{line}: {ended:?}");
    };
    let host = host(TWO_GPUS);
    check(&host, &board.enrol_line(""), "which has a --pin");
    let wrong = format!("--pin sha256:{}", "ab".repeat(32));
    let not_pinned = "hint: the board's certificate is not the one of the --pin";
    check(&host, &board.enrol_line(&wrong), not_pinned);
    let line = board.enrol_line("").replace("https://", "http://");
    let ended = host.gua(&format!("{line} --pin {}", board.pin));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("a pin needs an https URL"),
        "{ended:?}"
    );
    let ended = host.gua(&board.enrol_line("--pin sha256:abc"));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("64 hexadecimal digits"), "{ended:?}");
    assert!(!host.path(".gua/cloud.json").exists());

    // The host stops to trust the board when its certificate is another one.
    host.fine(&board.enrol_line(&format!("--pin {}", board.pin)));
    host.fine("sync-once");
    let other = start();
    for file in ["certificate.pem", "certificate-key.pem"] {
        let file = format!(".gua/board/{file}");
        std::fs::copy(other.home.path(&file), board.home.path(&file)).unwrap();
    }
    let pid = Pid::from_child(&board.running.child);
    kill_process(pid, Signal::HUP).unwrap();
    wait_for("the new certificate", || {
        let log = board.running.stderr();
        log.contains("certificate loaded again").then_some(())
    });
    check(&host, "sync-once", not_pinned);
    host.fine(&format!(
        "{} --force",
        board.enrol_line(&format!("--pin {}", other.pin))
    ));
    host.fine("sync-once");
    board.running.stop();
    let log = board.running.stderr();
    assert!(log.contains("board stopped"), "{log}");
}

#[test]
fn a_client_without_tls_gets_no_answer_and_harms_nobody() {
    let board = start();
    let address = board.url.strip_prefix("https://").unwrap();
    let mut plain = std::net::TcpStream::connect(address).unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n";
    std::io::Write::write_all(&mut plain, request).unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    let host = host(TWO_GPUS);
    host.fine(&board.enrol_line(&format!("--pin {}", board.pin)));
}
