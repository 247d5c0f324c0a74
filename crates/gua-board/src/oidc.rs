//! Log-in at an OpenID Connect provider: authorization code with PKCE. The crate `openidconnect` builds the requests and
//! verifies the signature, issuer, audience, nonce and time of the ID token.
//!
//! A log-in in progress is kept in memory for ten minutes under a random `state`, which the provider sends back. The browser
//! has the same state in a cookie, so that nobody can complete a log-in in another person's browser. A state works once. This
//! module makes no HTTP requests itself: the caller passes a function that does ([`Fetch`]).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use axum::http::HeaderName;
pub use axum::http::{Request, Response};
use data_encoding::BASE64URL_NOPAD;
use gua_board_store::registry::Identity;
use gua_board_store::{Kind, Secret, SecretHash};
use gua_model::failure_log::FailureLog;
use jiff::{SignedDuration, Timestamp};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreIdToken, CoreIdTokenClaims, CoreJwsSigningAlgorithm,
    CoreProviderMetadata,
};
use openidconnect::{
    AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, IssuerUrl,
    Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, SignatureVerificationError,
    TokenResponse as _,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::limits::RateLimit;

/// Time in which a person has to log in at the provider.
pub(crate) const LOG_IN_TIME: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of log-ins that are in progress.
const MAX_LOG_INS: usize = 10_000;
/// Age at which the provider's description and keys are read again.
const METADATA_TIME: std::time::Duration = std::time::Duration::from_secs(600);
/// Rate limit for reading the keys before that age because a token has an unknown key. A provider may replace its keys at any
/// time, but anyone can begin a log-in.
const KEY_READS: (u32, f64) = (3, 1.0 / 60.0);
/// Accepted signature algorithms: asymmetric ones, whose private key only the provider has.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];
/// Path to which the provider sends the browser back.
pub(crate) const CALLBACK: &str = "/oidc/callback";

/// Makes one request and returns its answer, without following redirects.
pub type Fetch =
    Arc<dyn Fn(Request<Vec<u8>>) -> Result<Response<Vec<u8>>, FetchError> + Send + Sync>;

/// Reason a request to the provider failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(pub String);

/// A provider, and the board's registration there.
#[derive(Clone)]
pub struct OidcOptions {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// Claim of the ID token with the groups of a person; `None` to leave groups to the admins.
    pub groups_claim: Option<String>,
    pub fetch: Fetch,
}

impl fmt::Debug for OidcOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "OidcOptions({})", self.issuer)
    }
}

/// Reason a log-in fails. The chain is for the log; the person is only asked to try again.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error("the provider's URL is not valid")]
    Url(#[from] openidconnect::url::ParseError),
    #[error("cannot read the provider's configuration")]
    Discovery(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot exchange the authorization code for a token")]
    Exchange(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the provider returned no ID token")]
    NoIdToken,
    #[error("the ID token is not valid")]
    Claims(#[from] ClaimsVerificationError),
    #[error("the claims of the ID token cannot be read")]
    Payload,
}

/// A log-in that waits for the provider.
struct Pending {
    nonce: Nonce,
    verifier: PkceCodeVerifier,
    wanted: Wanted,
    began: Timestamp,
}

/// Action after the log-in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Path to return to.
    pub(crate) next: String,
    /// Invitation to redeem.
    pub(crate) link: Option<SecretHash>,
}

/// A person that the provider has authenticated.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) identity: Identity,
    /// Name to suggest for an account.
    pub(crate) name: String,
    /// Names of the person's groups at the provider, if the board takes them from there.
    pub(crate) groups: Option<Vec<String>>,
    pub(crate) wanted: Wanted,
}

/// Log-ins at one provider.
pub(crate) struct Oidc {
    options: OidcOptions,
    redirect: String,
    pending: Mutex<HashMap<SecretHash, Pending>>,
    metadata: Mutex<Option<(Instant, CoreProviderMetadata)>>,
    key_reads: RateLimit<()>,
    /// Log-ins without the claim that lists groups.
    without_groups: Mutex<FailureLog>,
}

impl fmt::Debug for Oidc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(out)
    }
}

impl Oidc {
    pub(crate) fn new(options: OidcOptions, public_url: &str) -> Self {
        Self {
            options,
            redirect: format!("{public_url}{CALLBACK}"),
            pending: Mutex::default(),
            metadata: Mutex::default(),
            key_reads: RateLimit::new(KEY_READS.0, KEY_READS.1),
            without_groups: Mutex::default(),
        }
    }

    fn groups_claim(&self) -> Option<&str> {
        self.options.groups_claim.as_deref()
    }

    /// Returns the provider's description and keys. Blocks.
    fn metadata(&self) -> Result<CoreProviderMetadata, OidcError> {
        let known = self.metadata.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, metadata)) = known
            && at.elapsed() < METADATA_TIME
        {
            return Ok(metadata);
        }
        self.read_metadata()
    }

    /// Reads the provider's description and keys again. Blocks.
    fn read_metadata(&self) -> Result<CoreProviderMetadata, OidcError> {
        let issuer = IssuerUrl::new(self.options.issuer.clone())?;
        let fetch = |request| (self.options.fetch)(request);
        let metadata = CoreProviderMetadata::discover(&issuer, &fetch)
            .map_err(|error| OidcError::Discovery(error.into()))?;
        let mut known = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    /// Begins a log-in. Returns the state for the browser's cookie and the URL of the provider; `None` if too many are in
    /// progress. Blocks.
    pub(crate) fn begin(
        &self,
        wanted: Wanted,
        now: Timestamp,
    ) -> Result<Option<(Secret, String)>, OidcError> {
        let metadata = self.metadata()?;
        // Some providers send the claim only to clients that ask for it; others refuse scopes that they do not know.
        let scopes = metadata.scopes_supported().into_iter().flatten();
        let is_of_groups = |scope: &&Scope| Some(scope.as_str()) == self.groups_claim();
        let scopes: Vec<Scope> = scopes.filter(is_of_groups).cloned().collect();
        let client = CoreClient::from_provider_metadata(
            metadata,
            ClientId::new(self.options.client_id.clone()),
            self.options.client_secret.clone().map(ClientSecret::new),
        )
        .set_redirect_uri(RedirectUrl::new(self.redirect.clone())?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let state = Secret::generate(Kind::Link);
        let text = state.reveal().to_owned();
        let (url, _, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                move || CsrfToken::new(text),
                Nonce::new_random,
            )
            .add_scope(Scope::new("profile".to_owned()))
            .add_scope(Scope::new("email".to_owned()))
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .url();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|_, one| now.duration_since(one.began) < LOG_IN_TIME);
        if pending.len() >= MAX_LOG_INS {
            return Ok(None);
        }
        let waiting = Pending {
            nonce,
            verifier,
            wanted,
            began: now,
        };
        pending.insert(state.hash(), waiting);
        Ok(Some((state, url.to_string())))
    }

    /// Finishes a log-in with the provider's code; `None` if no such log-in is in progress. Blocks.
    pub(crate) fn finish(
        &self,
        state: &SecretHash,
        code: &str,
        now: Timestamp,
    ) -> Result<Option<Person>, OidcError> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let found = pending.remove(state);
        drop(pending);
        let Some(found) = found.filter(|one| now.duration_since(one.began) < LOG_IN_TIME) else {
            return Ok(None);
        };
        let client = CoreClient::from_provider_metadata(
            self.metadata()?,
            ClientId::new(self.options.client_id.clone()),
            self.options.client_secret.clone().map(ClientSecret::new),
        )
        .set_redirect_uri(RedirectUrl::new(self.redirect.clone())?);
        let fetch = |request| (self.options.fetch)(request);
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| OidcError::Exchange(error.into()))?
            .set_pkce_verifier(found.verifier)
            .request(&fetch)
            .map_err(|error| OidcError::Exchange(error.into()))?;
        let token = answer.id_token().ok_or(OidcError::NoIdToken)?;
        let claims = match self.claims(self.metadata()?, token, &found.nonce) {
            Err(error) if is_unknown_key(&error) && self.key_reads.take(()).is_ok() => {
                self.claims(self.read_metadata()?, token, &found.nonce)?
            }
            claims => claims?,
        };
        Ok(Some(Person {
            identity: Identity {
                issuer: self.options.issuer.clone(),
                subject: claims.subject().to_string(),
            },
            name: suggested_name(&claims),
            groups: match self.groups_claim() {
                Some(claim) => Some(self.groups(&token.to_string(), claim)?),
                None => None,
            },
            wanted: found.wanted,
        }))
    }

    /// Returns the groups in a claim of a verified ID token. If the token does not have the claim, the person has no groups, and
    /// this is logged: the claim may be misspelt, and some providers omit long lists.
    fn groups(&self, token: &str, claim: &str) -> Result<Vec<String>, OidcError> {
        let groups = listed_groups(token, claim)?;
        let log = self.without_groups.lock();
        let mut log = log.unwrap_or_else(PoisonError::into_inner);
        match log.change(&groups.as_ref().ok_or(())) {
            Some(Ok(log_ins)) => info!(claim, log_ins, "ID tokens contain the groups claim again"),
            Some(Err(())) => warn!(claim, "the ID token does not contain the groups claim"),
            None => {}
        }
        Ok(groups.unwrap_or_default())
    }

    /// Verifies an ID token.
    fn claims(
        &self,
        metadata: CoreProviderMetadata,
        token: &CoreIdToken,
        nonce: &Nonce,
    ) -> Result<CoreIdTokenClaims, OidcError> {
        let client = CoreClient::from_provider_metadata(
            metadata,
            ClientId::new(self.options.client_id.clone()),
            self.options.client_secret.clone().map(ClientSecret::new),
        );
        // Not the provider's own list, which may include unsigned tokens or ones signed with the client secret.
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
        Ok(token.claims(&verifier, nonce)?.clone())
    }
}

/// Value of a claim: the names of groups, or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum GroupsClaim {
    Many(Vec<GroupName>),
    One(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GroupName {
    Name(String),
    Other(IgnoredAny),
}

/// Returns the groups in a claim; `None` if the token does not have it.
fn listed_groups(token: &str, claim: &str) -> Result<Option<Vec<String>>, OidcError> {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes());
    let payload = payload.map_err(|_| OidcError::Payload)?;
    let claims: Result<HashMap<String, GroupsClaim>, _> = serde_json::from_slice(&payload);
    let mut claims = claims.map_err(|_| OidcError::Payload)?;
    Ok(match claims.remove(claim) {
        Some(GroupsClaim::Many(groups)) => {
            let name = |group| match group {
                GroupName::Name(name) => Some(name),
                GroupName::Other(_) => None,
            };
            Some(groups.into_iter().filter_map(name).collect())
        }
        Some(GroupsClaim::One(group)) => Some(vec![group]),
        Some(GroupsClaim::Other(_)) | None => None,
    })
}

/// Whether the token is signed with a key that the provider did not have when its keys were read.
fn is_unknown_key(error: &OidcError) -> bool {
    matches!(
        error,
        OidcError::Claims(ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey
        ))
    )
}

/// Returns a readable name of the person.
fn suggested_name(claims: &CoreIdTokenClaims) -> String {
    let name = claims.preferred_username().map(|name| name.to_string());
    let email = || claims.email().map(|email| email.to_string());
    let name = name.or_else(email);
    name.unwrap_or_else(|| claims.subject().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_claim_are_a_list_or_one_name() {
        let check = |claims: &str, expected: Option<&[&str]>| {
            let payload = BASE64URL_NOPAD.encode(claims.as_bytes());
            let found = listed_groups(&format!("head.{payload}.signature"), "groups").unwrap();
            let expected = expected.map(|names| names.iter().map(ToString::to_string).collect());
            assert_eq!(found, expected, "{claims}");
        };
        check(
            r#"{"groups": ["vision", "speech"]}"#,
            Some(&["vision", "speech"]),
        );
        check(r#"{"groups": "vision", "roles": ["x"]}"#, Some(&["vision"]));
        check(r#"{"exp": 7, "roles": ["x"]}"#, None);
        check(r#"{"groups": {"a": 1}}"#, None);
        check(r#"{"groups": ["vision", 7]}"#, Some(&["vision"]));
        assert!(listed_groups("head.?.signature", "groups").is_err());
        assert!(listed_groups("head", "groups").is_err());
    }
}
