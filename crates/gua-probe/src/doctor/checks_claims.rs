//! Checks of the claim directory: whether it can be used, and whether claims persist there.

use crate::host::logind::RemoveIpc;
use gua_model::text::sanitize;

use super::check::{Finding, Status};
use super::details::Details;
use super::facts::Facts;

const MAKE_ONE: &str = "Make /run/gua for claims: `d /run/gua 1777 root root` in /etc/tmpfiles.d/gua.conf, then `systemd-tmpfiles --create`";

const ENDS: &str = "a user's claims when their last session ends";

pub(super) fn claims(facts: &Facts) -> Finding {
    let place = match &facts.known.claims {
        Ok(place) => place,
        Err(why) => {
            let details = Details::Claims {
                directory: None,
                remove_ipc: None,
            };
            let summary = format!(
                "GPUs cannot be leased (gua available --claim): {}",
                sanitize(why)
            );
            return Status::Warning
                .finding(summary, details)
                .advise(format!("{MAKE_ONE}."));
        }
    };
    let shown = sanitize(&place.to_string_lossy());
    let (removes, why) = match &facts.remove_ipc {
        RemoveIpc::NoLogind => (Some(false), String::new()),
        RemoveIpc::Set { is_on, file } => {
            let file = sanitize(&file.to_string_lossy());
            (
                Some(*is_on),
                format!("removes {ENDS} (RemoveIPC in {file})"),
            )
        }
        RemoveIpc::BuiltIn { shown: Some(is_on) } => (
            Some(*is_on),
            format!("removes {ENDS} (RemoveIPC is yes by default here)"),
        ),
        RemoveIpc::BuiltIn { shown: None } => (
            None,
            format!("may remove {ENDS} (RemoveIPC is not set, and systemd's own default is yes)"),
        ),
    };
    let details = Details::Claims {
        directory: Some(shown.clone()),
        remove_ipc: removes,
    };
    if !place.starts_with("/dev/shm") || removes == Some(false) {
        return Status::Ok.finding(shown, details);
    }
    Status::Warning
        .finding(format!("{shown}: logind {why}"), details)
        .advise(format!(
            "{MAKE_ONE}; or set RemoveIPC=no in logind.conf and restart systemd-logind."
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::fixture::{assert_check, healthy};

    fn check(place: Result<&str, &str>, remove_ipc: RemoveIpc, status: Status, summary: &str) {
        let mut facts = healthy();
        facts.known.claims = place.map(Into::into).map_err(str::to_owned);
        facts.remove_ipc = remove_ipc;
        let found = claims(&facts);
        let advice: &[&str] = match (status, place) {
            (Status::Ok, _) => &[],
            (_, Err(_)) => &[
                "advice: Make /run/gua for claims: `d /run/gua 1777 root root` in /etc/tmpfiles.d/gua.conf, then `systemd-tmpfiles --create`",
            ],
            _ => &[
                "advice: Make /run/gua for claims: `d /run/gua 1777 root root` in /etc/tmpfiles.d/gua.conf, then `systemd-tmpfiles --create`; or set RemoveIPC=no in logind.conf and restart systemd-logind",
            ],
        };
        assert_check(&found, status, summary, advice);
    }

    fn set(is_on: bool) -> RemoveIpc {
        RemoveIpc::Set {
            is_on,
            file: "/etc/systemd/logind.conf".into(),
        }
    }

    #[test]
    fn claims_in_shared_memory_get_a_warning_where_logind_removes_them() {
        let built_in = |shown| RemoveIpc::BuiltIn { shown };
        check(Ok("/run/lock"), set(true), Status::Ok, "/run/lock");
        check(Ok("/dev/shm"), set(false), Status::Ok, "/dev/shm");
        check(Ok("/dev/shm"), RemoveIpc::NoLogind, Status::Ok, "/dev/shm");
        check(
            Ok("/dev/shm"),
            built_in(Some(false)),
            Status::Ok,
            "/dev/shm",
        );
        let ends = "a user's claims when their last session ends";
        check(
            Ok("/dev/shm"),
            set(true),
            Status::Warning,
            &format!("/dev/shm: logind removes {ends} (RemoveIPC in /etc/systemd/logind.conf)"),
        );
        check(
            Ok("/dev/shm/gua"),
            built_in(Some(true)),
            Status::Warning,
            &format!("/dev/shm/gua: logind removes {ends} (RemoveIPC is yes by default here)"),
        );
        check(
            Ok("/dev/shm"),
            built_in(None),
            Status::Warning,
            &format!(
                "/dev/shm: logind may remove {ends} (RemoveIPC is not set, and systemd's own default is yes)"
            ),
        );
    }

    #[test]
    fn a_host_without_a_claim_directory_gets_a_warning() {
        check(
            Err("none of /run/gua can be written by every user"),
            RemoveIpc::NoLogind,
            Status::Warning,
            "GPUs cannot be leased (gua available --claim): none of /run/gua can be written by every user",
        );
    }
}
