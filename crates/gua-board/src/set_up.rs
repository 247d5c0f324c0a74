//! Additions to a board's data by a command on its host: accounts, keys, tokens and the link for the first account. The
//! server may be running.

use gua_board_store::password::{PasswordError, PasswordHash};
use gua_board_store::registry::{
    Account, Actor, Change, HostClaim, LinkPurpose, NewAccount, NewApiToken, NewEnrolmentKey,
    NewLink, Role, Scope, Workspace,
};
use gua_board_store::{HostId, Kind, Registry, Secret, StoreError};
use jiff::{SignedDuration, Timestamp};

use crate::api::keys::checked_limits;
use crate::api::{checked_account_name, checked_name};

/// Lifetime of the set-up link. Each start of a board without accounts prints a new one.
const LINK_TIME: SignedDuration = SignedDuration::from_hours(24);

/// Reason an object cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("there is no workspace `{0}`")]
    NoWorkspace(String),
    #[error("there is no account `{0}`")]
    NoAccount(String),
    #[error("a token with the scope `screen` must expire")]
    NoEnd,
    #[error("a name has 1 to 100 visible characters")]
    Name,
}

/// Options of a new enrolment key.
#[derive(Clone, Debug, Default)]
pub struct KeyRequest<'a> {
    pub name: Option<&'a str>,
    /// Number of hosts that can enrol.
    pub uses: u32,
    /// Unlimited if there is none.
    pub lifetime: Option<SignedDuration>,
    /// Pattern of host names.
    pub host_names: Option<&'a str>,
    /// Tags, separated by commas.
    pub tags: Option<&'a str>,
    pub needs_approval: bool,
    /// A preset secret, for automation.
    pub preset: Option<Secret>,
}

/// Changes the data of a board at one time.
#[derive(Clone, Copy, Debug)]
pub struct SetUp<'a> {
    pub registry: &'a dyn Registry,
    pub now: Timestamp,
}

impl SetUp<'_> {
    pub(crate) fn change(&self) -> Change {
        Change {
            actor: Actor::CommandLine,
            address: None,
            at: self.now,
        }
    }

    pub(crate) fn workspace(&self, name: &str) -> Result<Workspace, SetUpError> {
        let all = self.registry.workspaces()?;
        let found = all.into_iter().find(|workspace| workspace.name == name);
        found.ok_or_else(|| SetUpError::NoWorkspace(name.to_owned()))
    }

    /// Enrols a host for which this program itself reports.
    pub(crate) fn enrol(
        &self,
        key: &Secret,
        hostname: String,
        agent_version: Option<String>,
    ) -> Result<HostId, SetUpError> {
        let token = Secret::generate(Kind::Agent);
        let host = self.registry.claim(&HostClaim {
            key: key.hash(),
            token: token.hash(),
            token_prefix: token.prefix(),
            hostname: Some(hostname),
            agent_version,
            driver_version: None,
            address: None,
            at: self.now,
        })?;
        Ok(host.id)
    }

    /// Adds an account, which cannot log in with a password if there is none.
    pub fn add_user(
        &self,
        workspace: &str,
        name: &str,
        role: Role,
        password: Option<&str>,
    ) -> Result<Account, SetUpError> {
        let account = NewAccount {
            name: checked_account_name(name).map_err(|_| SetUpError::Name)?,
            password: password.map(PasswordHash::of).transpose()?,
            workspace: self.workspace(workspace)?.id,
            role,
        };
        Ok(self.registry.add_account(&self.change(), &account)?)
    }

    /// Replaces the password of an account.
    pub fn set_password(&self, name: &str, password: &str) -> Result<(), SetUpError> {
        let account = self.registry.account(name)?;
        let account = account.ok_or_else(|| SetUpError::NoAccount(name.to_owned()))?;
        let password = PasswordHash::of(password)?;
        self.registry
            .set_password(&self.change(), &account.id, &password)?;
        Ok(())
    }

    /// Adds an enrolment key and returns its secret.
    pub fn add_enrolment_key(
        &self,
        workspace: &str,
        wanted: KeyRequest<'_>,
    ) -> Result<Secret, SetUpError> {
        let name = wanted.name.map(checked_name).transpose();
        let limits = checked_limits(wanted.host_names, wanted.tags, wanted.needs_approval);
        let secret = wanted.preset;
        let secret = secret.unwrap_or_else(|| Secret::generate(Kind::Enrolment));
        let key = NewEnrolmentKey {
            hash: secret.hash(),
            prefix: secret.prefix(),
            workspace: self.workspace(workspace)?.id,
            name: name.map_err(|_| SetUpError::Name)?,
            limits: limits.map_err(|_| SetUpError::Name)?,
            uses: wanted.uses,
            expires: self.after(wanted.lifetime),
        };
        self.registry.add_enrolment_key(&self.change(), &key)?;
        Ok(secret)
    }

    /// Adds an API token of an account and returns its secret.
    pub fn add_api_token(
        &self,
        workspace: &str,
        user: &str,
        scope: Scope,
        lifetime: Option<SignedDuration>,
    ) -> Result<Secret, SetUpError> {
        if scope == Scope::Screen && lifetime.is_none() {
            return Err(SetUpError::NoEnd);
        }
        let account = self.registry.account(user)?;
        let account = account.ok_or_else(|| SetUpError::NoAccount(user.to_owned()))?;
        let secret = Secret::generate(scope.kind());
        let token = NewApiToken {
            hash: secret.hash(),
            prefix: secret.prefix(),
            workspace: self.workspace(workspace)?.id,
            account: account.id,
            scope,
            expires: self.after(lifetime),
        };
        self.registry.add_api_token(&self.change(), &token)?;
        Ok(secret)
    }

    /// Adds a link that makes the first account, the owner; `None` if an account exists.
    pub fn add_first_link(&self, workspace: &str) -> Result<Option<Secret>, SetUpError> {
        if self.registry.has_accounts()? {
            return Ok(None);
        }
        let secret = Secret::generate(Kind::Link);
        let link = NewLink {
            hash: secret.hash(),
            purpose: LinkPurpose::Join {
                workspace: self.workspace(workspace)?.id,
                role: Role::Owner,
            },
            expires: self.after(Some(LINK_TIME)).unwrap_or(self.now),
        };
        self.registry.add_link(&self.change(), &link)?;
        Ok(Some(secret))
    }

    fn after(&self, lifetime: Option<SignedDuration>) -> Option<Timestamp> {
        self.now.checked_add(lifetime?).ok()
    }
}

/// URL of the page that accepts a link. The secret is in the fragment, which browsers do not send and proxies do not log.
pub fn join_url(public_url: &str, link: &Secret) -> String {
    format!("{public_url}/join#{}", link.reveal())
}
