//! Facts for `gua doctor` from the settings and the daemon's files: the history, the claims and the board; and its JSON document. The
//! checks themselves are in `gua_probe::doctor`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gua_compat::gpu_usage_audit::rows_inside;
use gua_model::chain::chain;
use gua_probe::doctor::check::Check;
use gua_probe::doctor::facts::{
    Answer, Choice, Enrolled, Facts, Fault, HistoryKind, Known, Link, NamedLibrary, PidSetting,
};
use gua_probe::doctor::plan::{Commands, Plan};
use gua_probe::doctor::{self, LIMIT, within};
use gua_probe::host::HostRoot;
use gua_render::document::sorted;
use gua_render::listing::ListEntry;
use gua_settings::kind::Home;
use gua_settings::{FileState, Loaded, Settings, Source};
use gua_store::{FileKind, what_is_this};
use gua_wire::server_url::Scheme;
use schemars::JsonSchema;
use serde::Serialize;

use crate::board::{CallError, EnrolmentError, Limits, setup};
use crate::daemon::HistoryFile;
use crate::python_collector::python_writer;
use crate::{alert, claims, location};

/// Time limits for a request to the board.
const BOARD_LIMITS: Limits = Limits {
    connect: Duration::from_secs(3),
    silence: Duration::from_secs(3),
    whole: Duration::from_secs(5),
};

/// Format name of [`DoctorDocument`].
pub const SCHEMA: &str = "gua.doctor.v1";

/// Output of `gua doctor --json`. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorDocument<'a> {
    schema_version: u32,
    /// Time of the examination, in the host's time zone.
    generated_at: String,
    scope: Scope,
    read_only: bool,
    no_system_changes: bool,
    checks: &'a [Check],
    /// The GPUs as in `gua list --json`, without leases; null if the driver cannot be read.
    gpus: Option<Vec<ListEntry>>,
    plan: &'a Plan,
    recommended_commands: &'a Commands,
}

/// Scope of the examination.
#[derive(Debug, Serialize, JsonSchema)]
struct Scope {
    machine: &'static str,
}

/// Returns the document of an examination. `gpus` is `None` if the driver cannot be read.
pub fn json(facts: &Facts, checks: &[Check], plan: &Plan, gpus: Option<Vec<ListEntry>>) -> String {
    sorted(&DoctorDocument {
        schema_version: 1,
        generated_at: facts.now.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string(),
        scope: Scope { machine: "local" },
        read_only: true,
        no_system_changes: true,
        checks,
        gpus,
        plan,
        recommended_commands: &plan.commands,
    })
}

/// Collects the facts that `gua_probe` cannot find itself.
pub fn known(loaded: &Loaded) -> Known {
    let settings = &loaded.settings;
    let pids = &settings.driver.pids;
    let db = settings.history.db.value.clone();
    Known {
        search_path: loaded.inputs.variable("PATH").map(ToOwned::to_owned),
        configuration: loaded.problems.iter().map(ToString::to_string).collect(),
        unreadable_files: unreadable_files(loaded),
        alerts: alert::problems(loaded),
        claims: claims::directory(settings)
            .map(|dir| dir.path().to_owned())
            .map_err(|error| chain(&error)),
        link: link(loaded),
        choice: match HistoryFile::configured(loaded).is_default() {
            true => Choice::Default,
            false => Choice::Custom,
        },
        history: history_kind(&db),
        python_writer: python_writer(&HostRoot::real(), &db),
        read_elsewhere: Some(location::history(loaded)).filter(|read| *read != db),
        db,
        driver_pids: PidSetting {
            value: pids.value,
            source: (pids.source != Source::Default).then(|| pids.source.to_string()),
        },
        library: named_library(settings),
    }
}

fn history_kind(db: &Path) -> HistoryKind {
    match what_is_this(db) {
        FileKind::GpuUsageAudit => HistoryKind::Old,
        FileKind::OurHistory { .. } => match rows_inside(db) {
            Ok(rows @ 1..) => HistoryKind::OursWithOldRows(rows),
            _ => HistoryKind::Ours,
        },
        kind @ (FileKind::NewerHistory { .. } | FileKind::OtherSqlite | FileKind::NotSqlite) => {
            HistoryKind::Other(kind.to_string())
        }
        _ => HistoryKind::Ours,
    }
}

/// Contacts the board if this host is enrolled.
fn link(loaded: &Loaded) -> Link {
    let path = loaded.settings.cloud.config.value.clone();
    let mut enrolment = setup::enrolment(loaded);
    if !enrolment.file.exists() {
        return Link::NotEnrolled;
    }
    let enrolled = match enrolment.current() {
        Ok(enrolled) => enrolled,
        Err(error) => {
            return Link::Unusable {
                path,
                why: chain(&error),
                fault: match error {
                    EnrolmentError::Invalid { .. } => Fault::Contents,
                    EnrolmentError::Endpoint(_) => Fault::Endpoint,
                    EnrolmentError::Missing(_) | EnrolmentError::Unreadable(_) => Fault::Unreadable,
                },
            };
        }
    };
    let mode = std::fs::metadata(&path).ok().map(|facts| facts.mode());
    let url = &enrolled.config.server_url;
    let named = setup::named(&enrolled);
    let is_exposed = url.scheme() == Scheme::Http && !url.is_loopback();
    let asked = Arc::clone(&enrolled);
    let answer = within(BOARD_LIMITS.whole + LIMIT, move || {
        asked.check(BOARD_LIMITS)
    });
    let answer = match answer {
        None => Answer::None("no response in time".to_owned()),
        Some(Ok(())) => Answer::Accepted,
        Some(Err(CallError::Refused {
            status: 401 | 403, ..
        })) => Answer::Denied,
        // A board without an archive answers, but does not know this request.
        Some(Err(CallError::Refused {
            status: 404 | 405, ..
        })) => Answer::Unverified,
        Some(Err(error)) => Answer::None(chain(&error)),
    };
    Link::Enrolled(Enrolled {
        path,
        named,
        mode,
        is_exposed,
        answer,
    })
}

/// Returns the library given by a setting, if it is not the default one.
pub fn named_library(settings: &Settings) -> Option<NamedLibrary> {
    let setting = &settings.driver.library;
    let source = match &setting.source {
        Source::Default => return None,
        Source::Environment(name) => (*name).to_owned(),
        other => other.to_string(),
    };
    let path = setting.value.clone();
    if path == Settings::defaults(&Home(None)).driver.library.value {
        return None;
    }
    Some(NamedLibrary {
        exists: doctor::exists(&path),
        path: path.to_string_lossy().into_owned(),
        source,
    })
}

/// Configuration files that this user may not read.
fn unreadable_files(loaded: &Loaded) -> Vec<PathBuf> {
    use rustix::fs::{Access, access};
    let files = loaded.files.iter();
    let faulty = files.filter(|file| file.state == FileState::Faulty);
    faulty
        .filter(|file| access(&file.path, Access::READ_OK) == Err(rustix::io::Errno::ACCESS))
        .map(|file| file.path.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let schema = gua_render::schemas::named::<DoctorDocument<'_>>(SCHEMA).1;
        gua_test::schema::assert_published(SCHEMA, &gua_render::document::pretty(&schema));
    }
}
