//! Text of the collector's unit. This module writes no files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gua_model::duration;

use super::board::{BoardFacts, network};
use super::collector::ALIAS;
use super::place::Scope;

/// First line of the units, which identifies units written by gua.
pub(super) const FIRST_LINE: &str = "# Written by `gua service install`. Changes here are lost when it runs again; use `systemctl edit`.";

/// Contents of the unit.
#[derive(Clone, Debug)]
pub(super) struct UnitFacts {
    pub(super) program: PathBuf,
    pub(super) scope: Scope,
    pub(super) interval: Option<Duration>,
    pub(super) readers: Readers,
    /// Configuration file that the sandbox must not hide.
    pub(super) settings: Option<PathBuf>,
    /// Board to which ticks are pushed.
    pub(super) cloud: Option<Pushing>,
}

/// Pushes of a collector to the board.
#[derive(Clone, Debug)]
pub(super) struct Pushing {
    pub(super) board: BoardFacts,
    pub(super) archive: bool,
}

/// Users who may read the host's history.
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
    /// Parses the readers of an installed system unit, so that a second unit uses the same.
    pub(super) fn of_unit(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        match (value("UMask=")?, value("Group=")) {
            (EVERYONE, None) => Some(Self::Everyone),
            (GROUP, Some(group)) => Some(Self::Group(group.to_owned())),
            (ROOT, None) => Some(Self::Root),
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

/// Values of `UMask=` for each kind of readers.
const EVERYONE: &str = "0022";
const GROUP: &str = "0027";
const ROOT: &str = "0077";

/// Path of the history of a scope for display.
pub(super) fn database(scope: Scope) -> &'static str {
    match scope {
        Scope::System => "/var/lib/gua/gua.db",
        Scope::User => "~/.gua/gua.db",
    }
}

/// Complete unit file.
pub(super) fn text(facts: &UnitFacts) -> String {
    let mut words = vec![
        word(&facts.program.to_string_lossy()),
        "daemon".to_owned(),
        "--foreground".to_owned(),
        "--append".to_owned(),
    ];
    if facts.scope == Scope::System {
        words.extend(["--db".to_owned(), database(Scope::System).to_owned()]);
    }
    if let Some(interval) = facts.interval {
        words.extend(["--interval".to_owned(), duration::written(interval)]);
    }
    let mut files: Vec<&Path> = vec![&facts.program];
    files.extend(facts.settings.as_deref());
    let (mut wants, mut environment) = ("", String::new());
    if let Some(Pushing { board, archive }) = &facts.cloud {
        words.push("--cloud".to_owned());
        words.extend(archive.then(|| "--archive".to_owned()));
        if facts.scope == Scope::System {
            let enrolment = word(&board.enrolment.to_string_lossy());
            words.extend(["--config".to_owned(), enrolment]);
        }
        files.extend(board.files.iter().map(PathBuf::as_path));
        wants = network(facts.scope);
        environment = board.environment();
    }
    let (wanted_by, scope_lines) = match facts.scope {
        Scope::System => ("multi-user.target", system_lines(&facts.readers, &files)),
        Scope::User => ("default.target", String::new()),
    };
    format!(
        "{FIRST_LINE}\n\
         [Unit]\n\
         Description=gua, who holds which GPU, since when, and whether it was used\n\
         After=nvidia-persistenced.service\n\
         {wants}\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={exec}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         Restart=on-failure\n\
         RestartSec=10\n\
         WatchdogSec=120\n\
         TimeoutStopSec=15\n\
         Nice=5\n\
         {environment}\
         {scope_lines}\
         {HARDENING}\
         \n\
         [Install]\n\
         WantedBy={wanted_by}\n\
         Alias={ALIAS}\n",
        exec = words.join(" "),
    )
}

/// Hardening options of every unit that reads GPUs.
pub(super) const HARDENING: &str = "# Requires the driver's devices, /proc, and its own directory.\n\
     NoNewPrivileges=yes\n\
     LockPersonality=yes\n\
     RestrictRealtime=yes\n\
     RestrictSUIDSGID=yes\n\
     RestrictNamespaces=yes\n\
     RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n\
     SystemCallArchitectures=native\n\
     SystemCallFilter=@system-service\n";

/// Lines of the host's units, which run as root with almost no capabilities: they must see every process, even with
/// hidepid.
pub(super) fn system_lines(readers: &Readers, files: &[&Path]) -> String {
    let (group, mask, mode) = match readers {
        Readers::Everyone => (None, EVERYONE, "0755"),
        Readers::Group(name) => (Some(name), GROUP, "0750"),
        Readers::Root => (None, ROOT, "0700"),
    };
    let group = group
        .map(|name| format!("Group={name}\n"))
        .unwrap_or_default();
    let home = if files.iter().any(|file| is_below_a_home(file)) {
        "read-only"
    } else {
        "yes"
    };
    format!(
        "{group}\
         UMask={mask}\n\
         StateDirectory=gua\n\
         StateDirectoryMode={mode}\n\
         CapabilityBoundingSet=CAP_SYS_PTRACE\n\
         ProtectSystem=strict\n\
         ProtectHome={home}\n\
         PrivateTmp=yes\n\
         ProtectHostname=yes\n\
         ProtectKernelLogs=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         ProtectControlGroups=yes\n\
         # Not PrivateDevices and not ProtectClock: both hide the driver's devices.\n"
    )
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
pub(super) fn word(text: &str) -> String {
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
