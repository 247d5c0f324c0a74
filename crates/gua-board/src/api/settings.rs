//! Settings of a workspace, and the facts about the board that only its command line changes.

use gua_board_store::registry::{Role, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, MAX_NAME_LENGTH, NAME_PATTERN, check_range, checked_name, whole};
use crate::app::App;
use crate::call::Call;
use crate::error::Problem;
use crate::run::KEEP_SNAPSHOTS;

/// Settings of a workspace.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettingsDocument {
    /// Heading of the pages.
    pub(crate) title: Option<String>,
    /// Least role that sees the names of people and processes on GPUs. Wall screens never show them.
    pub(crate) names_from: Role,
    /// Lifetime of a session. A member of several workspaces has the shortest.
    pub(crate) session_days: u32,
    pub(crate) board: BoardFacts,
}

/// Version of the board, and its settings from the command line.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BoardFacts {
    pub(crate) version: &'static str,
    pub(crate) url: String,
    pub(crate) encryption: Encryption,
    /// Fingerprint that hosts pin, of a self-signed certificate.
    pub(crate) pin: Option<String>,
    /// Addresses of trusted proxies.
    pub(crate) proxies: Vec<String>,
    /// OpenID Connect provider.
    pub(crate) oidc_issuer: Option<String>,
    /// Header in which a proxy names the person.
    pub(crate) user_header: Option<String>,
    /// Role of people whom the provider or proxy authenticates and who have no account; `null` if they need an invitation.
    pub(crate) new_accounts: Option<Role>,
    /// Time after which snapshots, which contain names, are deleted. The newest one of each host is kept.
    pub(crate) snapshot_hours: i64,
}

/// Encryption of connections to the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Encryption {
    /// A certificate from files.
    Certificate,
    /// A certificate that the board made.
    SelfSigned,
    /// A proxy adds TLS.
    Proxy,
    /// None: the board is reached on loopback.
    None,
}

/// New settings. A setting that is absent has its default.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChangeSettings {
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    title: Option<String>,
    names_from: Option<Role>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 90))]
    session_days: Option<u32>,
}

pub(crate) fn settings(call: &Call) -> Result<SettingsDocument, Problem> {
    let settings = call.caller().workspace.settings.clone();
    Ok(SettingsDocument {
        title: settings.title,
        names_from: settings.names_from,
        session_days: settings.session_days,
        board: facts(&call.app),
    })
}

fn facts(app: &App) -> BoardFacts {
    let proxies = app.options.proxies.addresses.iter();
    let encryption = match (app.options.has_certificate, app.options.pin, proxies.len()) {
        (true, None, _) => Encryption::Certificate,
        (true, Some(_), _) => Encryption::SelfSigned,
        (false, _, 0) => Encryption::None,
        (false, ..) => Encryption::Proxy,
    };
    BoardFacts {
        version: env!("CARGO_PKG_VERSION"),
        url: app.options.public_url.clone(),
        encryption,
        pin: app.options.pin.map(|pin| pin.to_string()),
        proxies: proxies.map(ToString::to_string).collect(),
        oidc_issuer: app.options.oidc.as_ref().map(|oidc| oidc.issuer.clone()),
        user_header: app.options.user_header.as_ref().map(ToString::to_string),
        new_accounts: app.options.new_account_role,
        snapshot_hours: KEEP_SNAPSHOTS.as_hours(),
    }
}

pub(crate) fn set_settings(call: &Call) -> Done {
    let wanted: ChangeSettings = call.input()?;
    let usual = Settings::default();
    let settings = Settings {
        title: wanted.title.as_deref().map(checked_name).transpose()?,
        names_from: wanted.names_from.unwrap_or(usual.names_from),
        session_days: wanted.session_days.unwrap_or(usual.session_days),
    };
    check_range(
        "sessionDays",
        Some(settings.session_days),
        Settings::SESSION_DAYS,
    )?;
    call.store(|registry, by, workspace| registry.set_settings(by, workspace, &settings))
}
