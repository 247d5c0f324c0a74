//! Texts of units, from templates. This module writes no files.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gua_model::duration;

use super::board::{BoardFacts, network};
use super::collector::{ALIAS, READER, SOCKET};
use super::host_facts::HostFacts;
use super::place::Scope;
use crate::location::OF_THE_HOST;
use crate::socket::ANSWERS_ARGUMENT;

/// First line of the units, which identifies units written by gua.
pub(super) const FIRST_LINE: &str = "# Written by `gua service install`. Changes here are lost when it runs again; use `systemctl edit`.";

/// Contents of the unit.
#[derive(Clone, Debug)]
pub(super) struct UnitFacts {
    pub(super) program: PathBuf,
    pub(super) scope: Scope,
    /// Path of the history; `None` leaves it to the configuration of the user.
    pub(super) db: Option<PathBuf>,
    pub(super) interval: Option<Duration>,
    pub(super) readers: Readers,
    pub(super) host: HostFacts,
    /// Address on which metrics are served.
    pub(super) metrics: Option<SocketAddr>,
    /// Board to which ticks are pushed.
    pub(super) board: Option<BoardFacts>,
}

/// Users who may ask about the host's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    Everyone,
    /// Group name or GID.
    Group(String),
    Root,
}

impl FromStr for Readers {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        };
        match (word, word.strip_prefix("group:")) {
            ("everyone", _) => Ok(Self::Everyone),
            ("root", _) => Ok(Self::Root),
            (_, Some(group)) if is_name(group) => Ok(Self::Group(group.to_owned())),
            _ => Err(format!(
                "invalid readers `{word}`: expected `everyone`, `group:NAME` or `root`"
            )),
        }
    }
}

impl Readers {
    /// Options of the socket that let these users ask. Root always may.
    fn access(&self) -> String {
        match self {
            Self::Everyone => "SocketMode=0666".to_owned(),
            Self::Group(group) => format!("SocketMode=0660\nSocketGroup={group}"),
            Self::Root => "SocketMode=0600".to_owned(),
        }
    }

    /// Parses the readers of an installed socket, or of a service of an earlier version, whose file they read.
    pub(super) fn of_unit(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let group = value("SocketGroup=").or(value("Group="));
        match (value("SocketMode=").or(value("UMask="))?, group) {
            ("0666" | "0022", None) => Some(Self::Everyone),
            ("0660" | "0027", Some(group)) => Some(Self::Group(group.to_owned())),
            ("0600" | "0077", None) => Some(Self::Root),
            _ => None,
        }
    }
}

/// Formats the value of `--readable-by`.
impl fmt::Display for Readers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => out.write_str("everyone"),
            Self::Group(group) => write!(out, "group:{group}"),
            Self::Root => out.write_str("root"),
        }
    }
}

/// System user and group of the host's service.
pub(super) const USER: &str = "gua";

/// Path of the history in the command line of a unit.
pub(super) fn database_of(unit: &str) -> Option<PathBuf> {
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))?;
    let mut words = shlex::split(line)?.into_iter();
    words.find(|word| word == "--db")?;
    Some(words.next()?.replace("$$", "$").replace("%%", "%").into())
}

/// Unit of the collector.
pub(super) fn text(facts: &UnitFacts) -> String {
    let mut words = ["daemon", "--foreground", "--append"]
        .map(String::from)
        .to_vec();
    words.extend(facts.database());
    if let Some(interval) = facts.interval {
        words.extend(["--interval".to_owned(), duration::written(interval)]);
    }
    if let Some(address) = facts.metrics {
        words.extend(["--metrics".to_owned(), address.to_string()]);
    }
    let mut wants = String::new();
    if let Some(board) = &facts.board {
        words.push("--cloud".to_owned());
        words.extend(board.archive.then(|| "--archive".to_owned()));
        wants.push_str(network(facts.scope));
    }
    let (wanted_by, own) = match facts.scope {
        Scope::System => {
            wants.push_str(&format!("Wants={SOCKET}\nAfter={SOCKET}\n"));
            // The directory of the default `cloud.socket`. Only this unit has it: systemd removes it when a unit with it ends.
            ("multi-user.target", "RuntimeDirectory=gua-collector\n")
        }
        Scope::User => ("default.target", ""),
    };
    let values = [
        ("first_line", FIRST_LINE),
        ("network", &wants),
        ("exec", &exec(&facts.program, &words)),
        ("rest", &facts.rest(own)),
        ("wanted_by", wanted_by),
        ("alias", ALIAS),
    ];
    filled(include_str!("templates/gua.service"), &values)
}

/// Replaces `{name}` in a template. The values are not searched for names.
pub(super) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, after) = part.split_once('}').expect("a template has whole names");
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.expect("every name of a template has a value").1);
        text.push_str(after);
    }
    text.trim_end().to_owned() + "\n"
}

/// A service that takes one sample and ends.
pub(super) const SAMPLE_SERVICE: &str = include_str!("templates/sample.service");

/// A timer. `spread` is the maximum random delay.
pub(super) fn timer(
    first_line: &str,
    description: &str,
    every: Duration,
    spread: Option<Duration>,
) -> String {
    let spread = spread.map(|spread| format!("RandomizedDelaySec={}s\n", spread.as_secs()));
    let values = [
        ("first_line", first_line),
        ("description", description),
        ("when", &when(every)),
        ("spread", &spread.unwrap_or_default()),
    ];
    filled(include_str!("templates/sample.timer"), &values)
}

/// A command line of systemd.
pub(super) fn exec(program: &Path, words: &[String]) -> String {
    let program = program.to_string_lossy();
    let words = words.iter().map(|text| word(text));
    let words: Vec<String> = [word(&program)].into_iter().chain(words).collect();
    words.join(" ")
}

/// Whether a unit uses the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Used,
    Unused,
    /// Used only to serve metrics on this address.
    Served(SocketAddr),
}

impl UnitFacts {
    /// Notes about the board for the user.
    pub(super) fn board_notes(&self) -> String {
        let board = self.board.as_ref();
        board.map_or_else(String::new, BoardFacts::notes)
    }

    fn network(&self) -> Network {
        let host = &self.host;
        if self.board.is_some() || host.has_network_names || host.has_alerts {
            return Network::Used;
        }
        self.metrics.map_or(Network::Unused, Network::Served)
    }

    /// Arguments that name the history.
    pub(super) fn database(&self) -> impl Iterator<Item = String> {
        let db = self.db.as_ref().map(|db| db.to_string_lossy().into_owned());
        db.into_iter().flat_map(|db| ["--db".to_owned(), db])
    }

    /// Options of a unit that reads GPUs: the environment for the board, `own` and the sandbox of the host's units, and the
    /// hardening.
    pub(super) fn rest(&self, own: &str) -> String {
        let board = self.board.as_ref();
        let mut rest = board.map_or_else(String::new, BoardFacts::environment);
        if self.scope == Scope::System {
            rest.push_str(own);
            rest.push_str(&sandbox(self));
        }
        rest + &hardening(self.network())
    }
}

/// Hardening options of every unit that reads GPUs, of the host or of a user.
fn hardening(network: Network) -> String {
    let families = match network {
        Network::Used => "AF_UNIX AF_INET AF_INET6",
        Network::Unused => "AF_UNIX",
        Network::Served(SocketAddr::V4(_)) => "AF_UNIX AF_INET",
        Network::Served(SocketAddr::V6(_)) => "AF_UNIX AF_INET6",
    };
    filled(
        include_str!("templates/hardening.conf"),
        &[("families", families)],
    )
}

/// Addresses of a unit that uses the network: all except multicast. Pushes, name servers and NIS need no multicast. The board is
/// configured by name, so its address cannot be listed.
const UNICAST: &str = "IPAddressDeny=any
IPAddressAllow=0.0.0.0/1 128.0.0.0/2 192.0.0.0/3 240.0.0.0/4
IPAddressAllow=::/1 8000::/2 c000::/3 e000::/4 f000::/5 f800::/6 fc00::/7 fe00::/8
";

/// Lines of the host's units, which run as the system user.
fn sandbox(facts: &UnitFacts) -> String {
    let (db, host) = (facts.db.as_deref(), &facts.host);
    let capabilities = match host.has_containers {
        // The runtimes' files with the names of containers are private to root.
        true => "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH",
        false => "CAP_SYS_PTRACE",
    };
    let groups = host.device_group;
    let mut groups = groups.map_or_else(String::new, |gid| format!("SupplementaryGroups={gid}\n"));
    let settings = host.settings.iter().map(|path| ("config.toml", path));
    let secrets = facts.board.iter();
    let secrets = secrets.flat_map(|board| &board.credentials);
    let secrets = secrets.map(|(name, path)| (*name, path));
    let credentials: String = settings
        .chain(secrets)
        .map(|(name, path)| credential(name, path))
        .collect();
    // Minor numbers of the driver's devices: GPUs, `nvidia-modeset` and `nvidiactl` (nvidia's kernel module, `nv.h`).
    let mut devices: String = (0..32)
        .chain(254..=255)
        .map(|minor| format!("DeviceAllow=/dev/char/195:{minor} rw\n"))
        .collect();
    if host.has_terminals {
        // A terminal that accepts messages (mesg(1)) is writable by this group.
        groups.push_str("SupplementaryGroups=tty\n");
        devices.push_str("DeviceAllow=char-pts w\n");
    }
    let network = match facts.network() {
        Network::Served(address) if address.ip().is_loopback() => {
            "IPAddressDeny=any\nIPAddressAllow=localhost\n"
        }
        Network::Used | Network::Served(_) => UNICAST,
        Network::Unused => "PrivateNetwork=yes\nIPAddressDeny=any\n",
    };
    // The default directory is the state directory of the unit.
    let directory = db.and_then(Path::parent);
    let directory = directory.filter(|path| Some(*path) != Path::new(OF_THE_HOST).parent());
    let values = [
        ("user", USER),
        ("groups", &groups),
        ("capabilities", capabilities),
        ("credentials", &credentials),
        ("homes", &homes(&facts.program, directory)),
        ("devices", &devices),
        ("network", network),
    ];
    let mut text = filled(include_str!("templates/system.conf"), &values);
    if let (Some(db), Some(directory)) = (db, directory) {
        let service_db = quoted(&format!("GUA_SERVICE_DB={}", db.to_string_lossy()));
        let directory = quoted(&directory.to_string_lossy());
        text.push_str(&format!(
            "Environment={service_db}\nReadWritePaths={directory}\n"
        ));
    }
    text
}

/// Lines that hide the home directories, except for the program and the directory of the history where these are in one
/// (systemd.exec(5), `ProtectHome=tmpfs`).
fn homes(program: &Path, directory: Option<&Path>) -> String {
    let bound = |option: &str, path: Option<&Path>| {
        let path = path.filter(|path| is_below_a_home(path));
        let path = path.map(|path| quoted(&path.to_string_lossy()));
        path.map(|path| format!("{option}={path}\n"))
    };
    let program = bound("BindReadOnlyPaths", Some(program));
    let directory = bound("BindPaths", directory);
    match (&program, &directory) {
        (None, None) => "ProtectHome=yes\n".to_owned(),
        _ => {
            let lines = [program, directory].into_iter().flatten();
            "ProtectHome=tmpfs\n".to_owned() + &lines.collect::<String>()
        }
    }
}

/// Unit of a collector that no longer pushes to a board.
pub(super) fn without_board(unit: &str) -> String {
    let is_secret = |line: &str| {
        let names = ["cloud.json", "cloud.salt", "ca.pem"];
        let credential = line.strip_prefix("LoadCredential=");
        credential.is_some_and(|rest| names.iter().any(|name| rest.starts_with(name)))
    };
    let kept = unit.lines().filter(|line| !is_secret(line));
    let kept = kept.map(|line| match line.strip_prefix("ExecStart=") {
        Some(words) => {
            let words = words.trim_end_matches(" --archive");
            format!("ExecStart={}\n", words.trim_end_matches(" --cloud"))
        }
        None => format!("{line}\n"),
    });
    kept.collect()
}

/// A file that systemd copies for the service when it starts, because its user cannot read it. gua finds it in
/// `$CREDENTIALS_DIRECTORY` by its name.
pub(super) fn credential(name: &str, path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%%");
    format!("LoadCredential={name}:{path}\n")
}

/// Value of `ProtectHome=` with which these files can be read.
pub(super) fn home(files: &[&Path]) -> &'static str {
    match files.iter().any(|file| is_below_a_home(file)) {
        true => "read-only",
        false => "yes",
    }
}

/// The socket of the host's service, and the service that answers there.
pub(super) fn answering(facts: &UnitFacts) -> [(&'static str, String); 2] {
    let socket = [
        ("first_line", FIRST_LINE),
        ("socket", "/run/gua.sock"),
        ("access", &facts.readers.access()),
        ("reader", READER),
    ];
    let db = facts.db.as_deref().unwrap_or(Path::new(OF_THE_HOST));
    let words = [
        ANSWERS_ARGUMENT.to_owned(),
        db.to_string_lossy().into_owned(),
    ];
    let files: Vec<&Path> = vec![&facts.program, db];
    let reader = [
        ("first_line", FIRST_LINE),
        ("socket", SOCKET),
        ("exec", &exec(&facts.program, &words)),
        ("user", USER),
        ("home", home(&files)),
    ];
    [
        (
            SOCKET,
            filled(include_str!("templates/gua.socket"), &socket),
        ),
        (
            READER,
            filled(include_str!("templates/gua-reader.service"), &reader),
        ),
    ]
}

/// Declaration of the system user for systemd-sysusers(8).
pub(super) fn system_user() -> String {
    let values = [("first_line", FIRST_LINE), ("user", USER)];
    filled(include_str!("templates/sysusers.conf"), &values)
}

fn is_below_a_home(program: &Path) -> bool {
    ["/home", "/root", "/run/user"]
        .iter()
        .any(|home| program.starts_with(home))
}

/// Schedule of a timer: calendar times if the period divides an hour or a day, so that it does not drift, else relative
/// to the last run (systemd.timer(5), systemd.time(7)).
pub(super) fn when(every: Duration) -> String {
    let (minutes, rest) = (every.as_secs() / 60, every.as_secs() % 60);
    let hours = minutes / 60;
    match (rest, minutes) {
        (0, 1..60) if 60 % minutes == 0 => format!("OnCalendar=*:0/{minutes}\n"),
        (0, 60) => "OnCalendar=hourly\n".to_owned(),
        (0, 1440) => "OnCalendar=daily\n".to_owned(),
        (0, _) if minutes % 60 == 0 && 24 % hours == 0 => format!("OnCalendar=0/{hours}:00\n"),
        _ => format!("OnActiveSec=1s\nOnUnitActiveSec={}s\n", every.as_secs()),
    }
}

/// Quotes a word of a command line for systemd (systemd.service(5), "Command lines").
fn word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@,=".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    quoted(text).replace('$', "$$")
}

/// Quotes a value for other options (systemd.exec(5), `Environment=`), in which systemd expands no variables.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '%' => quoted.push_str("%%"),
            control if control.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_as_systemd_reads_it() {
        assert_eq!(word("/usr/local/bin/gua"), "/usr/local/bin/gua");
        assert_eq!(word("/opt/my tools/gua"), "\"/opt/my tools/gua\"");
        assert_eq!(word("/opt/100%/a\"b$c\\d"), "\"/opt/100%%/a\\\"b$$c\\\\d\"");
        assert_eq!(quoted("A=$b %\n"), "\"A=$b %%\\x0a\"");
    }

    #[test]
    fn readers_are_everyone_a_group_or_root() {
        assert_eq!("everyone".parse(), Ok(Readers::Everyone));
        assert_eq!("root".parse(), Ok(Readers::Root));
        assert_eq!(
            "group:gpu-admins".parse(),
            Ok(Readers::Group("gpu-admins".to_owned()))
        );
        for bad in ["", "group:", "group:a b", "group:x\nUser=y", "admins"] {
            assert!(bad.parse::<Readers>().is_err(), "{bad:?}");
        }
    }
}
