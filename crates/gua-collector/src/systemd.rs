//! What a service tells systemd: ready, alive, reloading, stopping (sd_notify(3)). Datagrams to the socket that systemd
//! named in the environment; whoever reads the environment passes the name in.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to systemd, or to nobody.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// From the value of `NOTIFY_SOCKET`: a path, or a name in the abstract namespace behind `@`.
    pub fn to(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes().split_first() {
            Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(Self {
            socket: Some(socket),
        })
    }

    /// Nobody listens.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Sends one state. A manager that does not listen is no reason to stop.
    pub fn send(&self, state: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(state.as_bytes());
        }
    }

    /// A reload begins; systemd wants to know when, on the monotonic clock.
    pub fn reloading(&self, monotonic: Duration) {
        let micros = monotonic.as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }
}

/// How often to say that we are alive: half of what `WATCHDOG_USEC` allows; never where it is meant for another process.
#[must_use]
pub fn heartbeat(usec: Option<&OsStr>, pid: Option<&OsStr>, own_pid: u32) -> Option<Duration> {
    let allowed: u64 = usec?.to_str()?.parse().ok().filter(|micros| *micros > 0)?;
    let is_ours = match pid.and_then(OsStr::to_str) {
        Some(text) => text.parse() == Ok(own_pid),
        None => true,
    };
    is_ours.then(|| Duration::from_micros(allowed / 2).max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heart_beats_twice_in_the_time_that_systemd_allows() {
        let check = |usec: Option<&str>, pid: Option<&str>, expected: Option<u64>| {
            assert_eq!(
                heartbeat(usec.map(OsStr::new), pid.map(OsStr::new), 42),
                expected.map(Duration::from_millis),
                "{usec:?} {pid:?}"
            );
        };
        check(Some("30000000"), None, Some(15_000));
        check(Some("30000000"), Some("42"), Some(15_000));
        check(Some("30000000"), Some("43"), None);
        check(Some("0"), None, None);
        check(Some("soon"), None, None);
        check(None, Some("42"), None);
    }

    #[test]
    fn a_socket_in_the_abstract_namespace_is_reached_too() {
        let name = format!("gua-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        Notifier::to(OsStr::new(&format!("@{name}")))
            .unwrap()
            .send("READY=1");
        let mut buffer = [0; 64];
        let length = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
    }

    #[test]
    fn without_a_listener_nothing_happens() {
        Notifier::none().send("READY=1");
        assert!(Notifier::to(OsStr::new("/nonexistent/notify")).is_err());
    }
}
