//! A board as the settings describe it: the enrolment of this host, the connection options and the policy for user names.

use std::path::Path;
use std::sync::Arc;

use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::text::sanitize;
use gua_probe::fault::DriverFault;
use gua_probe::{clock, host};
use gua_settings::kind::{PushForm, UserNames};
use gua_settings::{FlagValue, Loaded, Settings};
use gua_wire::snapshot::{About, ErrorCode, Form};
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, Snapshot};
use jiff::Timestamp;

use super::{
    CloudFile, ConnectOptions, EndpointError, Enrolled, Enrolment, EnrolmentError, LinkFiles,
    LiveReporter, QuotaReporter, live, salt,
};
use crate::VERSION;

/// Loads the enrolment. Nothing is contacted.
pub fn enrolled(loaded: &Loaded) -> Result<Arc<Enrolled>, Failure> {
    enrolment(loaded).current().map_err(|error| {
        let hint = match &error {
            EnrolmentError::Missing(_) => {
                "enrol this host with `gua enroll --server-url URL --enrollment-token -`, or pass the file with --config"
            }
            EnrolmentError::Unreadable(_) => {
                "run this as the user who enrolled the host, or pass another file with --config"
            }
            EnrolmentError::Invalid { .. } => {
                "replace it with `gua enroll --force`, remove it with `gua unenroll`, or pass another file with --config"
            }
            EnrolmentError::Endpoint(error) => return endpoint_failure(error),
        };
        Failure::usage(chain(&error)).hint(hint)
    })
}

/// Error for an enrolment at a board without TLS, such as the Python tool accepts. It must not stop the collecting.
pub fn insecure(loaded: &Loaded) -> Option<Failure> {
    match enrolment(loaded).current() {
        Err(EnrolmentError::Endpoint(error @ EndpointError::Insecure(_))) => {
            Some(endpoint_failure(&error))
        }
        _ => None,
    }
}

/// Error for a board that cannot be reached as configured.
pub fn endpoint_failure(error: &EndpointError) -> Failure {
    let hint = matches!(error, EndpointError::Insecure(_))
        .then_some("use the board's https URL; --allow-http sends the token unencrypted");
    Failure::usage(chain(error)).hint_if(hint)
}

/// The configured enrolment, which may not exist.
pub fn enrolment(loaded: &Loaded) -> Enrolment {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    Enrolment::new(file, connect_options(loaded))
}

/// Connection options from the settings and the environment.
pub fn connect_options(loaded: &Loaded) -> ConnectOptions {
    let cloud = &loaded.settings.cloud;
    ConnectOptions {
        unencrypted: cloud.allow_http.value,
        ca_file: cloud.ca_file.value.clone(),
        pin: None,
        proxies: loaded.inputs.proxies(),
    }
}

/// Identity of this host in every push.
pub fn about<'a>(config: &'a CloudConfig, hostname: &'a str) -> About<'a> {
    About {
        hostname,
        agent_version: VERSION,
        host_id: Some(&config.host_id),
        display_name: Some(&config.display_name),
    }
}

/// The state files of the link of a history.
pub fn link_files(loaded: &Loaded, history: &Path) -> LinkFiles {
    LinkFiles::new(&loaded.settings.cloud.config.value, history)
}

/// Pushes an error heartbeat and records the result. Both results are the start of a sentence.
pub fn heartbeat(
    enrolled: &Enrolled,
    files: &LinkFiles,
    (at, code): (Timestamp, ErrorCode),
    live: impl FnOnce() -> Option<String>,
) -> Result<String, String> {
    let hostname = host::name();
    let heartbeat = Snapshot::error_heartbeat(about(&enrolled.config, &hostname), at, code);
    let pushed = enrolled.push(&heartbeat.body(), live);
    files.record(&enrolled.config, clock::now(), &pushed);
    match pushed {
        Ok(()) => Ok(format!("pushed an error heartbeat to {}", named(enrolled))),
        Err(error) => Err(format!(
            "cannot push the error heartbeat ({})",
            chain(&error)
        )),
    }
}

/// A driver that could not be read, and whether the board knows.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct ReportedFault {
    context: String,
    #[source]
    pub fault: DriverFault,
}

/// Pushes an error heartbeat for a driver that could not be read; returns the error for the user.
pub fn report_fault(enrolled: &Enrolled, files: &LinkFiles, fault: DriverFault) -> ReportedFault {
    let at = clock::now();
    let what = (at, ErrorCode::NvmlInitFailed);
    let live = || Some(live::failed(&host::name(), at).body());
    let context = match heartbeat(enrolled, files, what, live) {
        Ok(pushed) => format!("{pushed}, because the driver could not be read"),
        Err(problem) => format!("{problem}, and the driver could not be read"),
    };
    ReportedFault { context, fault }
}

/// The board in messages: the name of this host there and its URL.
pub fn named(enrolled: &Enrolled) -> String {
    let name = sanitize(&enrolled.config.shown_name());
    format!("{name} ({})", enrolled.config.server_url)
}

/// Builds live reports by the settings, with the history at a path.
pub fn live_reporter(
    loaded: &Loaded,
    flags: &[FlagValue],
    history: &Path,
) -> Result<LiveReporter, Failure> {
    let users = users(&loaded.settings)?;
    Ok(LiveReporter {
        settings: loaded.settings.clone(),
        history: history.to_owned(),
        hostname: host::name(),
        quotas: Some(Arc::new(QuotaReporter::new(loaded, flags, history, &users))),
        users,
    })
}

/// The configured format of pushes.
pub fn push_form(settings: &Settings) -> Form {
    match settings.cloud.form.value {
        PushForm::V1_1 => Form::V1_1,
        PushForm::V1_4 => Form::V1_4,
    }
}

/// The policy for user names. The salt of pseudonyms is created if it does not exist.
pub fn users(settings: &Settings) -> Result<UserPolicy, Failure> {
    Ok(match settings.cloud.users.value {
        UserNames::Plain => UserPolicy::Plain,
        UserNames::Omit => UserPolicy::Omit,
        UserNames::Hash => UserPolicy::Hash(salt::load(&settings.cloud.salt_file.value)?),
    })
}
