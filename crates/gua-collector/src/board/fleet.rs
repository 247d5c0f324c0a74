//! The GPUs of all hosts of a board, read over its API with the token of a person.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use gua_files::{NewFile, Over};
use gua_model::failure::Failure;
use gua_model::text::percent_encode;
use gua_settings::{Inputs, Loaded};
use gua_wire::live::{HostState, LiveDocument};
use gua_wire::{ServerUrl, Token};
use serde::Deserialize;

use super::client::CallError;
use super::endpoint::Endpoint;
use super::setup;

/// File with the tokens of `gua board login`, below the state directory.
const FILE: &str = ".gua/boards.json";
/// Maximum size of the file.
const MAX_BYTES: u64 = 1 << 20;

/// A board and the token of a person.
#[derive(Debug)]
pub struct Fleet {
    endpoint: Endpoint,
    token: Token,
}

#[derive(Deserialize)]
struct Me {
    memberships: Vec<Membership>,
}

#[derive(Deserialize)]
struct Membership {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    name: String,
}

impl Fleet {
    /// Prepares requests to a board. Nothing is contacted.
    pub fn new(loaded: &Loaded, board: &ServerUrl, token: Token) -> Result<Self, Failure> {
        let endpoint = Endpoint::new(board, &setup::connect_options(loaded))
            .map_err(|error| setup::endpoint_failure(&error))?;
        Ok(Self { endpoint, token })
    }

    /// Returns the name of the workspace that the token is for.
    pub fn workspace(&self) -> Result<Option<String>, CallError> {
        let me: Me = self.endpoint.read("/api/v1/me", &self.token)?;
        let first = me.memberships.into_iter().next();
        Ok(first.map(|first| first.workspace.name))
    }

    /// Returns the state of all hosts, by name. An account without a workspace sees none.
    pub fn hosts(&self) -> Result<Vec<HostState>, CallError> {
        let Some(workspace) = self.workspace()? else {
            return Ok(Vec::new());
        };
        let workspace = percent_encode(workspace.as_bytes());
        let path = format!("/api/v1/workspaces/{workspace}/live");
        let document: LiveDocument = self.endpoint.read(&path, &self.token)?;
        Ok(document.hosts)
    }
}

/// The tokens of `gua board login`, by board.
#[derive(Debug)]
pub struct SavedTokens(PathBuf);

impl SavedTokens {
    /// The file of this user; `None` without a home directory.
    pub fn of(inputs: &Inputs) -> Option<Self> {
        Some(Self(inputs.home.as_ref()?.join(FILE)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the token for a board.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn get(&self, board: &ServerUrl) -> io::Result<Option<Token>> {
        let token = self.load()?.remove(&board.to_string());
        Ok(token.and_then(|token| Token::new(&token).ok()))
    }

    /// Stores the token for a board. Only the user can read the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put(&self, board: &ServerUrl, token: &Token) -> io::Result<()> {
        let mut tokens = self.load()?;
        tokens.insert(board.to_string(), token.reveal().to_owned());
        gua_files::make_private_directory(gua_files::directory(&self.0))?;
        let new = NewFile::begin_private(&self.0, Over::Write)?;
        serde_json::to_writer_pretty(&new.file, &tokens)?;
        new.finish()
    }

    fn load(&self) -> io::Result<BTreeMap<String, String>> {
        match gua_files::read_regular(&self.0, MAX_BYTES) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }
}
