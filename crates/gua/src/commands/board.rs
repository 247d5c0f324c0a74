//! `gua board`: runs a board, and changes its data from its host.

pub(super) mod fleet;
mod link;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gua_board::alert::Watch;
use gua_board::demo::{Fleet, GPUS, HOSTS};
use gua_board::oidc::{FetchError, OidcOptions};
use gua_board::run::Board;
use gua_board::set_up::{KeyRequest, SetUpError, join_url};
use gua_board::tls::{CertificateFiles, Tls, own_certificate};
use gua_board::{AlertList, AlertLog, App, AppOptions, Proxies};
use gua_board_store::registry::FIRST_WORKSPACE;
use gua_board_store::secret::PRESET_LENGTH;
use gua_board_store::{Kind, OpenError, Secret, SecretHash, SqliteStore, StoreError};
use gua_collector::alert::{self, FleetAlerts, SenderState};
use gua_collector::board::{ConnectOptions, setup};
use gua_collector::service::web::WebServer;
use gua_model::alert::{Alert, Sender};
use gua_model::failure_log::FailureLog;
use gua_probe::host;
use gua_settings::{Inputs, Loaded};
use gua_wire::Pin;
use gua_wire::server_url::Unencrypted;
use jiff::SignedDuration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::commands::prelude::*;
use crate::commands::serve::{MIN_TOKEN_LENGTH, read_trimmed, set_up};

/// Number of messages of alerts that the board reads for a page. Each workspace sees those about its own hosts.
const SHOWN_ALERTS: usize = 1000;

/// Maximum length of a password on standard input.
const MAX_INPUT: u64 = 64 * 1024;

pub fn run(command: &BoardCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        BoardCommand::Serve(args) => serve(args, context)?,
        BoardCommand::Demo { listen } => demo(*listen, context)?,
        BoardCommand::Login { url } => fleet::login(url, context)?,
        BoardCommand::Link { code, user, .. } => link::run(&code.0, user.as_deref(), context)?,
        BoardCommand::Alert(command) => return alerts(command, context),
        BoardCommand::User { command } => user(command)?,
        BoardCommand::EnrollToken(args) => enroll_token(args)?,
        BoardCommand::ApiToken(args) => {
            let store = open_existing(&args.data)?;
            let lifetime = args.expires.map(signed);
            let workspace = &args.workspace.workspace;
            let added = set_up(&store).add_api_token(workspace, &args.user, args.scope, lifetime);
            print_secret(&added.map_err(usage)?)?;
        }
        BoardCommand::Install(args) => install(args, context)?,
        BoardCommand::Uninstall(args) => super::serve::uninstall(WebServer::Board, args, context)?,
        BoardCommand::Backup { data, output } => open_existing(data)?.backup(output)?,
        BoardCommand::Check(data) => {
            let problems = open_existing(data)?.check()?;
            output::data(&match problems.as_slice() {
                [] => "gua board check: no errors\n".to_owned(),
                problems => format!("{}\n", problems.join("\n")),
            })?;
            return Ok(success_or(Exit::Failed, problems.is_empty()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `gua board user`.
fn user(command: &BoardUserCommand) -> anyhow::Result<()> {
    let password = password()?;
    let done = match command {
        BoardUserCommand::Password { data, name, .. } => {
            let store = open_existing(data)?;
            set_up(&store).set_password(name, &password)
        }
        BoardUserCommand::Add {
            data,
            workspace,
            name,
            role,
            ..
        } => {
            let store = open(data)?;
            let password = Some(password.as_str());
            let added = set_up(&store).add_user(&workspace.workspace, name, *role, password);
            added.map(drop)
        }
    };
    done.map_err(usage)
}

/// `gua board alert`.
fn alerts(command: &BoardAlertCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        BoardAlertCommand::List { data, format } => {
            let sender = SenderState::board(&directory(data)?);
            super::alert::list(&sender, format.wanted(), context)
        }
        BoardAlertCommand::Test { name } => {
            super::alert::test(name.as_deref(), Sender::Board, context)
        }
        BoardAlertCommand::History {
            data,
            limit,
            format,
        } => {
            let sender = SenderState::board(&directory(data)?);
            super::alert::history(&sender, *limit, format.wanted(), context)
        }
    }
}

impl BoardServeArgs {
    /// Loads the certificate. Without one, the board creates a self-signed certificate if tokens and passwords would cross the
    /// network unencrypted; hosts then have to pin it.
    fn tls(&self, directory: &Path) -> anyhow::Result<(Option<Tls>, Option<Pin>)> {
        if let (Some(certificate), Some(key)) = (self.certificate.clone(), self.key.clone()) {
            let files = CertificateFiles { certificate, key };
            return Ok((Some(Tls::load(files)?), None));
        }
        let is_safe = self.listen.ip().is_loopback() || !self.proxy.is_empty();
        if is_safe && !self.tls {
            return Ok((None, None));
        }
        let address = self.listen.ip();
        let mut names = vec![host::name(), "localhost".to_owned()];
        names.extend((!address.is_unspecified()).then(|| address.to_string()));
        names.extend(self.url.as_ref().map(|url| url.host().to_owned()));
        let tls = Tls::load(own_certificate(directory, &names)?)?;
        let pin = tls.pin();
        Ok((Some(tls), Some(pin)))
    }

    /// URL of the board, without a trailing slash.
    fn public_url(&self, address: SocketAddr, is_tls: bool) -> String {
        if let Some(url) = &self.url {
            return url.to_string();
        }
        let scheme = if is_tls { "https" } else { "http" };
        match address.ip().is_unspecified() {
            true => format!("{scheme}://{}:{}", host::name(), address.port()),
            false => format!("{scheme}://{address}"),
        }
    }
}

/// The provider at which people log in, and the function that asks it.
fn provider(sign_on: &SignOnArgs, context: &Context) -> anyhow::Result<Option<OidcOptions>> {
    let (Some(issuer), Some(client_id)) = (&sign_on.oidc_issuer, &sign_on.oidc_client_id) else {
        return Ok(None);
    };
    // `cloud.allow_http` is about boards; a log-in never crosses a network unencrypted.
    let options = ConnectOptions {
        unencrypted: Unencrypted::LoopbackOnly,
        ..setup::connect_options(&context.loaded)
    };
    let fetch = move |request| gua_collector::board::fetch(&options, request).map_err(FetchError);
    let secret_file = sign_on.oidc_client_secret_file.as_deref();
    Ok(Some(OidcOptions {
        issuer: issuer.clone(),
        client_id: client_id.clone(),
        client_secret: secret_file.map(secret).transpose()?,
        groups_claim: sign_on.oidc_groups.clone(),
        fetch: Arc::new(fetch),
    }))
}

/// Returns the trusted proxies. A proxy must have a secret to send user names, because any user of this host can connect from
/// its addresses.
fn proxies(args: &BoardServeArgs) -> anyhow::Result<Proxies> {
    let file = args.sign_on.proxy_secret_file.as_deref();
    let secret = file.map(proxy_secret).transpose()?;
    Ok(Proxies {
        addresses: args.proxy.clone(),
        secret: secret.as_deref().map(SecretHash::of),
    })
}

/// Reads the secret that proxies send. Anyone who can read or guess it can act as any member.
fn proxy_secret(path: &Path) -> anyhow::Result<String> {
    let secret = secret(path)?;
    let shown = path.display();
    if secret.chars().count() < MIN_TOKEN_LENGTH {
        bail!(Failure::usage(format!(
            "the secret in `{shown}` has fewer than {MIN_TOKEN_LENGTH} characters"
        )));
    }
    let facts = path.metadata();
    let facts = facts.with_context(|| format!("cannot examine the secret `{shown}`"))?;
    if facts.mode() & 0o007 != 0 {
        let problem = format!("other users can access the secret `{shown}`");
        let hint = format!("remove their access: `chmod o= {shown}`");
        bail!(Failure::usage(problem).hint(hint));
    }
    Ok(secret)
}

/// Reads a secret from a file.
fn secret(path: &Path) -> anyhow::Result<String> {
    let text = read_trimmed(path, "secret")?;
    match text.is_empty() {
        true => bail!(Failure::usage(format!(
            "`{}` has no secret",
            path.display()
        ))),
        false => Ok(text),
    }
}

fn serve(args: &BoardServeArgs, context: &Context) -> anyhow::Result<()> {
    context.start_log();
    let sign_on = &args.sign_on;
    let proxies = proxies(args)?;
    allow_many_connections();
    let store = Arc::new(open(&args.data)?);
    let directory = directory(&args.data)?;
    let _lock = SqliteStore::lock_server(&directory)?;
    let (tls, pin) = args.tls(&directory)?;
    let mut board = Board::bind(args.listen)?;
    let public_url = args.public_url(board.address(), tls.is_some());
    let has_certificate = tls.is_some();
    board.reloads.tls = tls.map(Arc::new);
    let link = set_up(&store).add_first_link(FIRST_WORKSPACE)?;
    let options = AppOptions {
        pin,
        has_certificate,
        proxies,
        oidc: provider(sign_on, context)?,
        user_header: sign_on.user_header.clone(),
        new_account_role: sign_on.new_accounts,
        alert_log: Some(alert_log(&directory)),
        alert_list: Some(alert_list(context, &directory)),
        own_cost: gua_collector::metrics::own_cost,
        ..AppOptions::new(store, Arc::new(clock::now), public_url.clone())
    };
    let started = || {
        let mut text = format!("gua board: serving {public_url}\n");
        if let Some(pin) = pin {
            text.push_str(&format!("  hosts pin its certificate: --pin {pin}\n"));
        }
        if let Some(link) = link {
            let url = join_url(&public_url, &link);
            text.push_str(&format!("  create the first account: {url}\n"));
        }
        // A closed output is no reason to stop serving.
        let _ = output::data(&text);
    };
    let app = App::start(options)?;
    let alerts = {
        let (app, mut watch) = (Arc::clone(&app), Watch::default());
        let find = move |alerts: &[Alert], now| watch.find(&app, alerts, now);
        FleetAlerts::start(&context.loaded, &context.flags, &directory, find)
    };
    let alerts = Rc::new(alerts.context("cannot start the alerts")?);
    let reloaded = Rc::clone(&alerts);
    board.reloads.other = Some(Box::new(move || reloaded.reload()));
    let served = board.run(app, None, started);
    if let Some(alerts) = Rc::into_inner(alerts) {
        alerts.stop();
    }
    Ok(served?)
}

/// Reads the messages that the board page shows.
fn alert_log(directory: &Path) -> AlertLog {
    let sender = SenderState::board(directory);
    let log = ReadLog::default();
    Arc::new(move || log.passed("messages", alert::history(&sender, SHOWN_ALERTS)))
}

/// Reads the alerts of the configuration as it is now; the board uses it after a reload.
fn alert_list(context: &Context, directory: &Path) -> AlertList {
    let sender = SenderState::board(directory);
    let (inputs, flags) = (context.loaded.inputs.clone(), context.flags.clone());
    let log = ReadLog::default();
    Arc::new(move || {
        let loaded = Loaded::from(&inputs, &flags);
        let checked = loaded.checked().map_err(|failure| failure.to_string());
        log.passed("configuration", checked)?;
        Ok(alert::listed_for_page(&loaded, &sender))
    })
}

/// Logs when a read for a page starts to fail, and when it succeeds again.
#[derive(Default)]
struct ReadLog(Mutex<FailureLog>);

impl ReadLog {
    /// Returns the result of reading `what`. Logs the error that starts a fault, and the end of the fault.
    fn passed<T>(&self, what: &'static str, read: Result<T, String>) -> Result<T, String> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.change(&read) {
            Some(Ok(failures)) => info!(what, failures, "alerts can be shown again"),
            Some(Err(error)) => warn!(what, error, "alerts cannot be shown"),
            None => {}
        }
        read
    }
}

/// Raises the soft limit of open files to the hard limit: every agent with a stream has a connection, and many systems start
/// programs with a limit of 1,024.
fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If it cannot be raised, further connections wait.
    let _ = setrlimit(Resource::Nofile, most);
}

fn install(args: &ServerInstallArgs, context: &Context) -> anyhow::Result<()> {
    let command = super::serve::server_options(&["gua", "board", "serve"], args)?;
    let Command::Board(BoardCommand::Serve(options)) = command else {
        bail!(Failure::usage(
            "the options after `--` must be options of `gua board serve`"
        ));
    };
    if options.data.data.is_some() {
        bail!(Failure::usage(
            "the service's data is in /var/lib/gua-board"
        ));
    }
    super::serve::install(WebServer::Board, args, options.listen.port(), context)
}

fn demo(listen: SocketAddr, context: &Context) -> anyhow::Result<()> {
    if !listen.ip().is_loopback() {
        bail!(Failure::usage(format!(
            "--listen {listen}: a demonstration is served on loopback only"
        )));
    }
    let directory = context.passing_directory("gua-board-demo-")?;
    let store = Arc::new(SqliteStore::open(directory.path())?);
    let (fleet, guest, link) = Fleet::enrol(set_up(&store))?;
    let board = Board::bind(listen)?;
    let public_url = format!("http://{}", board.address());
    let options = AppOptions {
        guest: Some(guest),
        ..AppOptions::new(store, Arc::new(clock::now), public_url.clone())
    };
    let started = || {
        let link = link.reveal();
        let _ = output::data(&format!(
            "gua board demo: {HOSTS} simulated hosts with {} GPUs\n  open once: {public_url}/demo/{link}\n  Ctrl-C stops the board and removes its data\n",
            HOSTS * GPUS
        ));
    };
    Ok(board.run(App::start(options)?, Some(fleet), started)?)
}

fn directory(data: &BoardDataArgs) -> Result<PathBuf, Failure> {
    if let Some(directory) = &data.data {
        return Ok(directory.clone());
    }
    let home = Inputs::of_this_process().home;
    let home = home.ok_or_else(|| Failure::usage("there is no home directory: use --data DIR"))?;
    Ok(home.join(".gua/board"))
}

fn open(data: &BoardDataArgs) -> anyhow::Result<SqliteStore> {
    SqliteStore::open(&directory(data)?).map_err(not_opened)
}

fn open_existing(data: &BoardDataArgs) -> anyhow::Result<SqliteStore> {
    SqliteStore::open_existing(&directory(data)?).map_err(not_opened)
}

/// Adds what to do about data that cannot be opened.
fn not_opened(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Missing { .. } | OpenError::NotOurs { .. } => {
            Failure::usage(error.to_string()).hint("--data DIR names another directory")
        }
        OpenError::Damaged { .. } => Failure::failed(error.to_string())
            .hint("nothing was changed; put a file of `gua board backup` in its place, or start a new board in another directory with --data DIR"),
        other => return other.into(),
    }
    .into()
}

/// Converts mistakes of the caller to usage errors.
fn usage(error: SetUpError) -> anyhow::Error {
    match error {
        SetUpError::Store(error) => error.into(),
        other => Failure::usage(other.to_string()).into(),
    }
}

/// Adds an enrolment key and prints its token.
fn enroll_token(args: &EnrollTokenArgs) -> anyhow::Result<()> {
    let preset = args.token_file.as_deref().map(preset).transpose()?;
    let is_preset = preset.is_some();
    let wanted = KeyRequest {
        name: args.name.as_deref(),
        uses: args.uses,
        lifetime: Some(signed(args.expires)),
        host_names: args.host_names.as_deref(),
        tags: args.tags.as_deref(),
        needs_approval: args.approval,
        preset,
    };
    let store = open(&args.data)?;
    match set_up(&store).add_enrolment_key(&args.workspace.workspace, wanted) {
        // Automation runs the command again and again.
        Err(SetUpError::Store(StoreError::Conflict(_))) if is_preset => Ok(()),
        // The caller has the token already.
        Ok(_) if is_preset => Ok(()),
        added => print_secret(&added.map_err(usage)?),
    }
}

/// Reads an enrolment token from a file.
fn preset(path: &Path) -> anyhow::Result<Secret> {
    let text = read_trimmed(path, "token")?;
    let secret = Secret::preset(Kind::Enrolment, &text).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` has no usable token: gua_enroll_ and at least {PRESET_LENGTH} characters without spaces",
            path.display()
        ))
    })?;
    Ok(secret)
}

fn print_secret(secret: &Secret) -> anyhow::Result<()> {
    output::data(&format!("{}\n", secret.reveal()))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Reads the first line of standard input.
fn password() -> anyhow::Result<String> {
    let mut text = String::new();
    let input = io::stdin().take(MAX_INPUT);
    { input }
        .read_to_string(&mut text)
        .context("cannot read the password from standard input")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
