//! Commands that run a board.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueHint};
use gua_board::oidc::HeaderName;
use gua_board_store::registry::{FIRST_WORKSPACE, Role, Scope};
use gua_wire::ServerUrl;
use gua_wire::server_url::Unencrypted;

use super::many_hosts::{EnrolmentArgs, Secret, WayArgs};
use super::{FormatArgs, ImageArgs, UnitArgs};

/// Serve the web pages of this host until it is stopped, or install that as a service.
///
/// The pages show the GPUs now, and the report and the people of this host's history. There are no accounts, and nothing
/// can be changed. /gpu_status, /cluster_status and / answer like nvgpu's agent and master; the hosts on the first page are
/// those of the setting serve.agents, or of the file that NVGPU_CLUSTER_CFG names.
///
/// # Notes
///
/// On an address other than loopback, --token-file or --public is required.
///
/// # Examples
///
/// - `gua serve`: on http://127.0.0.1:8090
/// - `gua serve --listen 0.0.0.0:1080 --token-file token`: the browser asks for the token as a password
/// - `gua serve --listen 0.0.0.0:1080 --public`: for everyone who can reach the port
/// - `sudo gua serve install`: as a systemd service
/// - `GUA_SERVE_AGENTS=self,http://lab2:1080 gua serve`: two hosts on the first page
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeArgs {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,

    /// File with the token that callers must send: as a bearer token, or as the password for any user name.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,

    /// Answer everyone who reaches the address, without a token.
    #[arg(long, conflicts_with = "token_file")]
    pub public: bool,

    /// History to read [default: that of your daemon, otherwise the service's].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<OsString>,

    #[command(subcommand)]
    pub command: Option<ServeUnitCommand>,
}

#[derive(Debug, Subcommand)]
pub enum ServeUnitCommand {
    /// Install, enable and start the server as a systemd service. Run again to change or update it.
    ///
    /// Its other name is nvgpu-agent.service. It runs as the user `gua-serve`, which can read the history and owns nothing.
    ///
    /// # Notes
    ///
    /// Options of the server follow after `--`.
    ///
    /// # Examples
    ///
    /// - `sudo gua serve install`
    /// - `sudo gua serve install -- --listen 0.0.0.0:1080 --public`
    /// - `gua serve install --print`: print the unit without changing anything
    Install(ServerInstallArgs),

    /// Stop the service and remove its unit. The history is kept.
    ///
    /// # Examples
    ///
    /// - `sudo gua serve uninstall`
    Uninstall(ImageArgs),
}

#[derive(Debug, Args)]
pub struct ServerInstallArgs {
    #[command(flatten)]
    pub image: ImageArgs,

    #[command(flatten)]
    pub unit: UnitArgs,

    /// Options of the server.
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// Serve the board until it is stopped.
    ///
    /// The first start prints a link that creates the first account. Agents enrol with a token of `gua board enroll-token`.
    ///
    /// # Notes
    ///
    /// On an address other than loopback, the board serves over TLS: with the certificate in --certificate, or with one that
    /// it generates and that hosts pin when they enrol. Behind a proxy that adds TLS, name the proxy's address with --proxy
    /// instead.
    ///
    /// # Examples
    ///
    /// - `gua board serve`: on http://127.0.0.1:8080
    /// - `gua board serve --listen 0.0.0.0:8443`: with a certificate of its own
    /// - `gua board serve --listen 0.0.0.0:443 --certificate board.pem --key board.key --url https://board.example.com`
    /// - `gua board serve --listen 10.0.0.5:8080 --proxy 10.0.0.1 --url https://board.example.com`
    Serve(BoardServeArgs),

    /// Serve a board of simulated hosts until it is stopped.
    ///
    /// 12 hosts with 96 GPUs change every second. The command prints a link that opens the board once. The data is in a
    /// temporary directory, which is removed at the end.
    ///
    /// # Examples
    ///
    /// - `gua board demo`
    Demo {
        /// Address and port to listen on [default: 127.0.0.1 and a free port].
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "127.0.0.1:0",
            hide_default_value = true
        )]
        listen: SocketAddr,
    },

    /// Store an API token of a board for `gua list --board` and `gua available --board`.
    ///
    /// The token is read from standard input, without echo on a terminal, checked, and stored in ~/.gua/boards.json.
    ///
    /// # Notes
    ///
    /// The board's page "API tokens" creates one; the scope read is enough. GUA_BOARD_TOKEN overrides a stored token.
    ///
    /// # Examples
    ///
    /// - `gua board login https://board.example.com`
    Login {
        /// URL of the board.
        #[arg(value_name = "URL", value_hint = ValueHint::Url, value_parser = ServerUrl::parse)]
        url: ServerUrl,
    },

    /// Link your user name on this host to your account on a board.
    ///
    /// The page "Me" of the board shows the code. The command sends it to the board with your user name, or with your
    /// pseudonym if the host sends pseudonyms. If the host's service pushes to the board, the service passes the code on, and
    /// you need no other permission. Root can link the name of another user with --user.
    ///
    /// # Examples
    ///
    /// - `gua board link gua_name_...`
    /// - `sudo gua board link gua_name_... --user ada`
    Link {
        /// Code from the board's page.
        #[arg(value_name = "CODE")]
        code: Secret,
        /// User name to link [default: your own]. Only root can link that of another user.
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[command(flatten)]
        enrolment: EnrolmentArgs,
        #[command(flatten)]
        way: WayArgs,
    },

    /// Manage the board's accounts.
    ///
    /// # Examples
    ///
    /// - `gua board user add ada --role owner --password-stdin < password`
    User {
        #[command(subcommand)]
        command: BoardUserCommand,
    },

    /// Show and test the alerts that the board sends, and list past messages.
    ///
    /// # Notes
    ///
    /// Alerts of the board are `[[alert]]` tables of the configuration with by = "board": silent agents, idle-held GPUs,
    /// faults, lost GPUs and gaps on all hosts. See docs/alerts.md.
    ///
    /// # Examples
    ///
    /// - `gua board alert list`
    #[command(subcommand)]
    Alert(BoardAlertCommand),

    /// Print a new token that enrols hosts.
    ///
    /// # Notes
    ///
    /// The token is printed once, alone on one line. The board stores only its hash.
    ///
    /// # Examples
    ///
    /// - `gua board enroll-token --name lab-a100`
    /// - `gua board enroll-token --uses 40 --expires 30d`: for many hosts; each has its own name
    /// - `gua board enroll-token --uses 40 --host-names 'gpu-*' --tags lab,a100 --approval`
    /// - `gua board enroll-token --token-file token --uses 1000`: a token that an image of the hosts contains
    EnrollToken(EnrollTokenArgs),

    /// Print a new API token of an account.
    ///
    /// # Notes
    ///
    /// The token never allows more than the account's role. It is printed once; the board stores only its hash.
    ///
    /// # Examples
    ///
    /// - `gua board api-token --user ada --scope read`
    /// - `gua board api-token --user ci --scope write --expires 90d`
    ApiToken(ApiTokenArgs),

    /// Install, enable and start the board as a systemd service. Run again to change or update it.
    ///
    /// It runs as a user of its own with its data in /var/lib/gua-board.
    ///
    /// # Notes
    ///
    /// Options of `gua board serve` follow after `--`.
    ///
    /// # Examples
    ///
    /// - `sudo gua board install`
    /// - `sudo gua board install -- --listen 10.0.0.5:8080 --proxy 10.0.0.1 --url https://board.example.com`
    /// - `gua board install --print`: print the unit without changing anything
    Install(ServerInstallArgs),

    /// Stop the board's service and remove its unit. The data is kept.
    ///
    /// # Examples
    ///
    /// - `sudo gua board uninstall`
    Uninstall(ImageArgs),

    /// Copy the board's data, also while it serves.
    ///
    /// # Examples
    ///
    /// - `gua board backup /backup/board.db`
    Backup {
        #[command(flatten)]
        data: BoardDataArgs,
        /// Path of the copy; the file must not exist.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
    },

    /// Check the board's data; exit with 1 on any error.
    ///
    /// # Examples
    ///
    /// - `gua board check`
    Check(BoardDataArgs),
}

/// Addresses, encryption and data of a board.
#[derive(Debug, Args)]
pub struct BoardServeArgs {
    #[command(flatten)]
    pub data: BoardDataArgs,
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// URL under which people reach the board [default: http:// or https:// and the address or host name].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = public_url)]
    pub url: Option<ServerUrl>,
    /// Serve over TLS also on loopback and behind a proxy.
    #[arg(long)]
    pub tls: bool,
    /// PEM file with the certificate of the board. It is loaded again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    pub certificate: Option<PathBuf>,
    /// PEM file with the key of the certificate.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Address of a proxy that adds TLS and whose X-Forwarded-For header is trusted. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub proxy: Vec<IpAddr>,
    #[command(flatten)]
    pub sign_on: SignOnArgs,
}

/// A token that enrols hosts.
#[derive(Debug, Args)]
pub struct EnrollTokenArgs {
    #[command(flatten)]
    pub data: BoardDataArgs,
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Name of the host on the board [default: the name that the host reports].
    #[arg(long, value_name = "HOST")]
    pub name: Option<String>,
    /// Number of hosts that can enrol with the token.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub uses: u32,
    /// Names of hosts that can enrol, with * for any text [default: all].
    #[arg(long, value_name = "PATTERN")]
    pub host_names: Option<String>,
    /// Tags of the hosts, separated by commas.
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
    /// Let an admin approve each host before it can report.
    #[arg(long)]
    pub approval: bool,
    /// Use the token in this file: gua_enroll_ and at least 32 random characters. Repeating the command changes nothing.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Lifetime of the token.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, default_value = "1d")]
    pub expires: Duration,
}

/// An API token of an account.
#[derive(Debug, Args)]
pub struct ApiTokenArgs {
    #[command(flatten)]
    pub data: BoardDataArgs,
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Name of the account.
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// Rights of the token: read or write.
    #[arg(long, value_name = "SCOPE", default_value = "read")]
    pub scope: Scope,
    /// Lifetime of the token [default: until it is revoked].
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse)]
    pub expires: Option<Duration>,
}

/// Subcommands of `gua board alert`.
#[derive(Debug, Subcommand)]
pub enum BoardAlertCommand {
    /// List the alerts of the board, when each last sent a message, and what is wrong with its destination.
    ///
    /// # Examples
    ///
    /// - `gua board alert list --data /srv/board`
    List {
        #[command(flatten)]
        data: BoardDataArgs,
        #[command(flatten)]
        format: FormatArgs,
    },

    /// Send test messages now and report whether each destination accepted its message; exit with 1 if one did not.
    ///
    /// # Examples
    ///
    /// - `gua board alert test`
    /// - `gua board alert test on-call`
    Test {
        /// Name of one alert [default: all of the board].
        #[arg(value_name = "ALERT")]
        name: Option<String>,
    },

    /// Show the messages that were sent, are waiting or were given up, the latest first.
    ///
    /// # Examples
    ///
    /// - `gua board alert history`
    /// - `gua board alert history --data /srv/board --limit 10`
    History {
        #[command(flatten)]
        data: BoardDataArgs,
        /// Show at most N messages.
        #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
        limit: usize,
        #[command(flatten)]
        format: FormatArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum BoardUserCommand {
    /// Add an account.
    ///
    /// # Examples
    ///
    /// - `gua board user add ada --role owner --password-stdin < password`
    Add {
        #[command(flatten)]
        data: BoardDataArgs,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Name to log in with.
        #[arg(value_name = "NAME")]
        name: String,
        /// Role: viewer, member, admin or owner.
        #[arg(long, value_name = "ROLE", default_value = "member")]
        role: Role,
        /// Read the password from standard input.
        #[arg(long, required = true)]
        password_stdin: bool,
    },

    /// Set the password of an account and end its sessions.
    ///
    /// # Examples
    ///
    /// - `gua board user password ada --password-stdin < password`
    Password {
        #[command(flatten)]
        data: BoardDataArgs,
        /// Name of the account.
        #[arg(value_name = "NAME")]
        name: String,
        /// Read the password from standard input.
        #[arg(long, required = true)]
        password_stdin: bool,
    },
}

/// Parses the URL of a board. Its pages link to paths of the host.
fn public_url(text: &str) -> Result<ServerUrl, String> {
    let url = ServerUrl::parse(text).map_err(|error| error.to_string())?;
    match url.path() {
        "" => Ok(url),
        path => Err(format!(
            "a board needs a host name of its own; leave out `{path}`"
        )),
    }
}

/// Checks the URL of a provider. The text is kept, because an issuer is compared exactly, with its trailing slash.
fn issuer(text: &str) -> Result<String, String> {
    let url = ServerUrl::parse(text).map_err(|error| error.to_string())?;
    let checked = url.check_encrypted(Unencrypted::LoopbackOnly);
    checked.map_err(|_| "a provider needs an https URL, except on loopback".to_owned())?;
    Ok(text.trim().to_owned())
}

/// Ways to log in besides passwords.
#[derive(Debug, Args)]
pub struct SignOnArgs {
    /// URL of an OpenID Connect provider at which people can log in.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = issuer, requires = "oidc_client_id")]
    pub oidc_issuer: Option<String>,
    /// Client ID of this board at the provider.
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    pub oidc_client_id: Option<String>,
    /// File with the client secret of this board at the provider.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "oidc_issuer")]
    pub oidc_client_secret_file: Option<PathBuf>,
    /// Take the groups of members from this claim of the provider at each log-in, in place of those that admins set.
    #[arg(long, value_name = "CLAIM", num_args = 0..=1, require_equals = true, default_missing_value = "groups", requires = "oidc_issuer")]
    pub oidc_groups: Option<String>,
    /// Header in which a proxy of --proxy sends the user name. The proxy must remove it from the requests that it receives.
    /// Needs --proxy-secret-file.
    #[arg(long, value_name = "NAME", requires_all = ["proxy", "proxy_secret_file"])]
    pub user_header: Option<HeaderName>,
    /// File with a secret that every proxy sends in the header X-Gua-Proxy-Secret; required with --user-header. At least 16 characters, and not accessible to other users.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "user_header")]
    pub proxy_secret_file: Option<PathBuf>,
    /// Role of people who log in through the provider or proxy for the first time [default: they need an invitation].
    #[arg(long, value_name = "ROLE")]
    pub new_accounts: Option<Role>,
}

/// Location of the board's data.
#[derive(Debug, Args)]
pub struct BoardDataArgs {
    /// Directory with the board's data [default: ~/.gua/board].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
}

/// Workspace that a command changes.
#[derive(Debug, Args)]
pub struct WorkspaceArgs {
    /// Workspace to change.
    #[arg(long, value_name = "NAME", default_value = FIRST_WORKSPACE)]
    pub workspace: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_kept_as_written_and_encrypted() {
        for kept in [
            "https://id.example.com/",
            "https://id.example.com",
            "http://127.0.0.1:1/x/",
        ] {
            assert_eq!(issuer(kept).as_deref(), Ok(kept));
        }
        for refused in [
            "http://id.example.com",
            "id.example.com",
            "https://u:p@id.example.com",
        ] {
            assert!(issuer(refused).is_err(), "{refused}");
        }
    }
}
