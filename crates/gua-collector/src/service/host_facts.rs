//! Facts about the host that decide what the sandbox of its service permits.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gua_model::ContainerOwners;
use gua_model::alert::{Alert, Sender, Target};
use gua_model::failure::Failure;
use gua_probe::process::has_container_runtime;

use gua_settings::{FileState, Listed, Loaded};

use super::board::absolute;
use super::place::Place;

/// Access that the host's service needs beyond its own directory, `/proc` and the driver's devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostFacts {
    /// A container runtime, whose files with the names of containers only root can read.
    pub(super) has_containers: bool,
    /// User names come from the network (NIS), without a daemon in between.
    pub(super) has_network_names: bool,
    /// Alerts are sent over the network.
    pub(super) has_alerts: bool,
    /// Alerts are written to terminals.
    pub(super) has_terminals: bool,
    /// Group of the driver's devices, where not everyone may open them.
    pub(super) device_group: Option<u32>,
    /// Configuration file that the service's user may not be able to read.
    pub(super) settings: Option<PathBuf>,
}

impl HostFacts {
    pub(super) fn of(place: &Place, loaded: &Loaded) -> Result<Self, Failure> {
        let root = place.file("/");
        let containers = loaded.settings.owners.containers.value;
        let alerts = &loaded.settings.alerts;
        let own = own_settings(loaded).filter(|_| !place.is_image());
        Ok(Self {
            has_containers: containers == ContainerOwners::Name && has_container_runtime(&root),
            has_network_names: has_network_names(&place.file("/etc/nsswitch.conf")),
            has_alerts: alerts.iter().any(needs_network),
            has_terminals: (alerts.iter()).any(|alert| alert.value.target == Target::Write),
            device_group: device_group(&place.file("/dev/nvidiactl")),
            settings: own.map(absolute).transpose()?,
        })
    }
}

/// The configuration file of the user, if there is one.
pub(super) fn own_settings(loaded: &Loaded) -> Option<&Path> {
    let own = loaded.files.first()?;
    let is_there = own.state != FileState::Absent && own.path != loaded.inputs.system_file;
    is_there.then_some(&own.path)
}

fn needs_network(alert: &Listed<Alert>) -> bool {
    let is_remote = matches!(
        alert.value.target,
        Target::Webhook { .. } | Target::Email(_)
    );
    is_remote && alert.value.by == Sender::Daemon
}

/// Whether nsswitch.conf(5) looks users up over the network in the asking process. Other services (sss, ldap, winbind) ask a
/// daemon of the host.
fn has_network_names(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("passwd"))
        .filter_map(|line| line.trim_start().strip_prefix(':'))
        .flat_map(str::split_whitespace)
        .any(|service| matches!(service, "nis" | "nisplus"))
}

fn device_group(device: &Path) -> Option<u32> {
    let facts = fs::metadata(device).ok()?;
    let is_open = facts.mode() & 0o006 == 0o006;
    (!is_open && facts.gid() != 0).then(|| facts.gid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nis_needs_the_network_for_names() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nsswitch.conf");
        for (text, expected) in [
            ("passwd:         files systemd sss\nhosts: nis\n", false),
            ("passwd: files nis\n", true),
            (" passwd : files nisplus\n", true),
            ("# passwd: nis\n", false),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(has_network_names(&file), expected, "{text}");
        }
    }
}
