//! `gua serve`: the web pages of this host, from its driver and its history, and nvgpu's agent and master.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::CommandFactory as _;
use gua_board::live::{DAY_SLOTS, Since};
use gua_board::local::{Agent, Gate, Local, LocalHost};
use gua_board::run::Board;
use gua_board::set_up::SetUp;
use gua_board::{App, AppOptions, Problem};
use gua_board_store::{SecretHash, SqliteStore};
use gua_collector::board::{LiveReporter, agents, live};
use gua_collector::listing;
use gua_collector::service::web::{self, WebServer};
use gua_collector::service::{Place, Scope};
use gua_compat::nvgpu::{self, ProcessFacts, Status};
use gua_model::period::Quarter;
use gua_model::report::Report;
use gua_model::since::Start;
use gua_model::table::Table;
use gua_model::{GpuUuid, ProcessKey, Sample};
use gua_probe::host;
use gua_probe::host::time::ticks_per_second;
use gua_probe::reader::Reader;
use gua_query::{Detail, QueryError, StatementQuestion, TicksQuestion};
use gua_render::chart::Language;
use gua_render::listing::row::Terms;
use gua_render::report::{Asked, By, Words, html, table};
use gua_render::statement::{self, Sheet};
use gua_settings::Source;
use gua_settings::inputs::NVGPU_CLUSTER;
use gua_settings::kind::AGENT_SELF;
use gua_wire::nvgpu::{AgentReport, ClusterEntry};
use gua_wire::{LiveReport, ServerUrl, UserPolicy};

use crate::commands::prelude::*;

/// Maximum size of nvgpu's configuration file.
const MAX_INPUT: u64 = 1 << 20;
/// Maximum size of a file with a secret.
const MAX_SECRET: u64 = 64 * 1024;
/// Minimum length of a token: shorter ones can be guessed.
pub(super) const MIN_TOKEN_LENGTH: usize = 16;

/// Maximum number of ticks read per quarter hour. At intervals below 9 s, only the last ones are read.
const MAX_TICKS: u32 = 100;
/// The same for the quarter hours that the curves show.
const MAX_RECENT_TICKS: u32 = 900;

pub fn run(args: &ServeArgs, context: Context) -> anyhow::Result<()> {
    match &args.command {
        None => serve(args, context),
        Some(ServeUnitCommand::Install(args)) => {
            let Command::Serve(options) = server_options(&["gua", "serve"], args)? else {
                bail!(Failure::usage(
                    "the options after `--` must be options of `gua serve`"
                ));
            };
            gate(&options)?;
            install(WebServer::Host, args, options.listen.port(), &context)
        }
        Some(ServeUnitCommand::Uninstall(args)) => uninstall(WebServer::Host, args, &context),
    }
}

/// Parses the options of a server as its command would, so that a mistake is found before the unit is written.
pub(super) fn server_options(
    command: &[&str],
    args: &ServerInstallArgs,
) -> Result<Command, Failure> {
    let words = command.iter().map(OsString::from);
    let options = args.options.iter().map(OsString::from);
    let parsed = parse::<Cli>(Cli::command(), words.chain(options));
    let parsed = parsed.map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Failure::usage(line.trim_start_matches("error: ").to_owned())
    })?;
    Ok(parsed.args.command)
}

/// Installs the unit of a server.
pub(super) fn install(
    server: WebServer,
    args: &ServerInstallArgs,
    port: u16,
    context: &Context,
) -> anyhow::Result<()> {
    let place = place(&args.image, args.unit.print, context)?;
    let options = (args.options.as_slice(), port);
    let install = args.unit.into();
    let installed = web::install(server, options, &install, &place, &context.loaded)?;
    super::service::print(&installed)
}

/// Removes the unit of a server.
pub(super) fn uninstall(
    server: WebServer,
    args: &ImageArgs,
    context: &Context,
) -> anyhow::Result<()> {
    output::data(&web::uninstall(server, &place(args, false, context)?)?)
}

/// The units are those of the host. Everyone may print them.
fn place(args: &ImageArgs, print: bool, context: &Context) -> Result<Place, Failure> {
    let root = args.root.clone().or_else(|| print.then(|| "/".into()));
    let place = context.place(Some(Scope::System), root);
    place.map_err(|failure| failure.hint("run this command with sudo"))
}

fn serve(args: &ServeArgs, context: Context) -> anyhow::Result<()> {
    let gate = gate(args)?;
    let agents = agents_of(&context)?;
    context.start_log();
    let directory = context.passing_directory("gua-serve-")?;
    let store = Arc::new(SqliteStore::open(directory.path())?);
    let this = Arc::new(ThisHost::new(context, agents));
    let local = Local::enrol(set_up(&store), &host::name(), this, gate.clone())?;
    let board = Board::bind(args.listen)?;
    let address = board.address();
    let options = AppOptions {
        local: Some(local),
        ..AppOptions::new(store, Arc::new(clock::now), format!("http://{address}"))
    };
    let started = || {
        // A closed output is no reason to stop serving.
        let _ = output::data(&format!("gua serve: serving http://{address}\n"));
        output::eprint(warning(&gate));
    };
    Ok(board.run(App::start(options)?, None, started)?)
}

/// Decides who may call. Beyond loopback, that must be chosen.
fn gate(args: &ServeArgs) -> anyhow::Result<Gate> {
    if let Some(path) = &args.token_file {
        let token = read_trimmed(path, "token file")?;
        if token.len() < MIN_TOKEN_LENGTH {
            let problem =
                format!("--token-file: the token has fewer than {MIN_TOKEN_LENGTH} characters");
            bail!(Failure::usage(problem).hint("`openssl rand -hex 32 > FILE` makes one"));
        }
        return Ok(Gate::Token(SecretHash::of(&token)));
    }
    let listen = args.listen;
    match (listen.ip().is_loopback(), args.public) {
        (_, true) => Ok(Gate::Everyone),
        (true, false) => Ok(Gate::ThisHost),
        (false, false) => bail!(
            Failure::usage(format!(
                "--listen {listen}: everyone who reaches this address would see the users of the GPUs"
            ))
            .hint("require a token with --token-file FILE, or accept that with --public")
        ),
    }
}

/// Warning about access by strangers.
fn warning(gate: &Gate) -> &'static str {
    match gate {
        Gate::ThisHost => "",
        Gate::Everyone => {
            "gua serve: everyone who reaches this address sees the GPUs, and the names, processes and hours of their users\n"
        }
        Gate::Token(_) => {
            "gua serve: the token crosses the network unencrypted; put a TLS proxy in front of it\n"
        }
    }
}

/// Returns the agents of the first page: those of the settings, else those of nvgpu's configuration file.
fn agents_of(context: &Context) -> anyhow::Result<Vec<String>> {
    let setting = &context.settings().serve.agents;
    let file = context.loaded.inputs.variable(NVGPU_CLUSTER);
    let (Source::Default, Some(file)) = (&setting.source, file) else {
        return Ok(setting.value.clone());
    };
    let path = Path::new(file);
    let place = format!("{NVGPU_CLUSTER}: `{}`", path.display());
    let text = match gua_files::read_regular(path, MAX_INPUT) {
        Ok(text) => text,
        // nvgpu ignores a file that is missing.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(setting.value.clone());
        }
        Err(error) => return Err(error).context(place),
    };
    let found = nvgpu::cluster::agents(&String::from_utf8_lossy(&text));
    let found = found.map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let agents = found.unwrap_or_else(|| setting.value.clone());
    for agent in agents.iter().filter(|agent| *agent != AGENT_SELF) {
        ServerUrl::parse(agent).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    }
    Ok(agents)
}

/// The host that this program runs on.
struct ThisHost {
    context: Context,
    reporter: LiveReporter,
    agents: Vec<String>,
    /// Requests read the newest sample; only the regular refresh calls the driver.
    reader: Mutex<Reader>,
    latest: Mutex<Option<Result<Sample, String>>>,
}

impl ThisHost {
    fn new(context: Context, agents: Vec<String>) -> Self {
        Self {
            reporter: LiveReporter {
                settings: context.settings().clone(),
                history: context.history(),
                hostname: host::name(),
                users: UserPolicy::Plain,
                quotas: None,
            },
            reader: Mutex::new(context.reader()),
            latest: Mutex::new(None),
            context,
            agents,
        }
    }

    fn sample(&self) -> Result<Sample, String> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = reader.begin().and_then(|()| reader.finish());
        let sample = taken.map_err(|fault| chain(&fault));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample.clone());
        sample
    }

    fn latest(&self) -> Result<Sample, String> {
        // `sample` locks it too, so that the guard must not outlive this statement.
        let latest = self
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        latest.unwrap_or_else(|| self.sample())
    }
}

impl LocalHost for ThisHost {
    fn live(&self) -> LiveReport {
        match self.sample() {
            Ok(sample) => self.reporter.report(&sample),
            Err(_) => live::failed(&self.reporter.hostname, clock::now()),
        }
    }

    fn recorded(&self, put: &mut dyn FnMut(LiveReport)) {
        let now = Quarter::of(clock::now());
        let source = self.context.source();
        for back in (0..i64::try_from(DAY_SLOTS).unwrap_or(i64::MAX)).rev() {
            let question = TicksQuestion {
                window: Quarter(now.0 - back).period(),
                limit: match back < 5 {
                    true => MAX_RECENT_TICKS,
                    false => MAX_TICKS,
                },
            };
            // Without a readable history, the pages begin now. The page of the report says why.
            let Ok(ticks) = source.ticks(&question) else {
                return;
            };
            for tick in ticks {
                put(self.reporter.recorded(&tick.sample));
            }
        }
    }

    fn since(&self) -> Vec<(GpuUuid, Since)> {
        let Ok(sample) = self.latest() else {
            return Vec::new();
        };
        let terms = Terms {
            thresholds: self.context.settings().thresholds(),
            ticks_per_second: ticks_per_second(),
        };
        let found = listing::start_times(self.context.source().as_ref(), &sample, &terms);
        let since = found.into_iter().map(|(gpu, since)| {
            let is_exact = since.start == Start::Seen;
            let at = since.at;
            (gpu, Since { at, is_exact })
        });
        since.collect()
    }

    fn gpu_status(&self) -> Result<AgentReport, String> {
        let sample = self.latest()?;
        // The network carries short names, never command lines.
        let name = |key: &ProcessKey| {
            let processes = sample.gpus.iter().flat_map(|gpu| &gpu.processes);
            let mut identities = processes.filter_map(|process| process.identity.as_ref().ok());
            let found = identities.find(|identity| identity.key == *key)?;
            found.comm.clone().ok()
        };
        let facts = ProcessFacts {
            ticks_per_second: ticks_per_second(),
            command: &name,
        };
        Ok(AgentReport {
            hostname: self.reporter.hostname.clone(),
            gpus: nvgpu::agent_gpus(&sample, facts),
        })
    }

    fn cluster(&self) -> Vec<Agent> {
        let urls = self.agents.iter();
        let urls: Vec<ServerUrl> = urls.filter_map(|url| ServerUrl::parse(url).ok()).collect();
        let mut answers = agents::ask(&self.context.loaded, &urls).into_iter();
        let agent = |name: &String| {
            let entry = match name == AGENT_SELF {
                true => match self.gpu_status() {
                    Ok(report) => ClusterEntry::Report(report),
                    Err(error) => ClusterEntry::Failed { error },
                },
                false => answers.next().unwrap_or(ClusterEntry::Failed {
                    error: "Host not available".to_owned(),
                }),
            };
            let titles = nvgpu::TITLES.into_iter().skip(1);
            Agent {
                name: name.clone(),
                titles: ["GPU"].into_iter().chain(titles).collect(),
                rows: rows(&entry),
                entry,
            }
        };
        self.agents.iter().map(agent).collect()
    }

    fn report(&self, since: &str, language: Language) -> Result<String, Problem> {
        let (asked, report) = self.asked(since)?;
        let costs = super::report::costs(&self.context, &asked.question, &report);
        let costs = costs.map_err(|error| history(&error.into()))?;
        let mut page = asked.page(&report, VERSION);
        page.language = language;
        page.costs = costs.as_ref();
        Ok(html(&page))
    }

    fn people(&self, since: &str) -> Result<Table, Problem> {
        let (_, report) = self.asked(since)?;
        Ok(table(&report, By::User))
    }

    fn person(&self, name: &str) -> Result<String, Problem> {
        self.statement(name).map_err(|error| history(&error))
    }
}

impl ThisHost {
    /// The statement of a person for the current month.
    fn statement(&self, name: &str) -> anyhow::Result<String> {
        let now = clock::now();
        let zone = self.context.zone();
        let question = StatementQuestion {
            month: now.to_zoned(zone.clone()).date().first_of_month(),
            zone: zone.clone(),
            now,
            person: Some(name.to_owned()),
        };
        let (statement, costs) = super::statement::gather(&self.context, &question)?;
        Ok(statement::html(&Sheet {
            statement: &statement,
            zone,
            only: Some(name),
            version: VERSION,
            costs: costs.as_ref(),
        }))
    }

    fn asked(&self, since: &str) -> Result<(Asked, Report), Problem> {
        let words = Words {
            since: since.to_owned(),
            detail: Detail::Charts,
            ..Words::default()
        };
        let asked = words.ask(&self.context.zone(), clock::now());
        let asked = asked.map_err(|failure| Problem::Invalid(failure.of_argument()))?;
        let report = self.context.ask(|source| source.report(&asked.question));
        let report = report.map_err(|error| history(&error))?;
        Ok((asked, report))
    }
}

/// An unknown person is a wrong question; everything else is a fault of the history.
fn history(error: &anyhow::Error) -> Problem {
    match error.downcast_ref::<QueryError>() {
        Some(QueryError::NoSuchPerson { .. }) => Problem::Invalid(format!("{error:#}")),
        _ => Problem::NoHistory(format!("{error:#}")),
    }
}

/// Rows of nvgpu's table: index and cells, with the class of the state.
fn rows(entry: &ClusterEntry) -> Vec<(&'static str, Vec<String>)> {
    let ClusterEntry::Report(report) = entry else {
        return Vec::new();
    };
    let row = |(index, gpu)| {
        let class = match Status::of(gpu) {
            Status::Free => "free",
            Status::InUse => "used",
            Status::Stuck => "unusable",
        };
        let index = [usize::to_string(&index)].into_iter();
        (class, index.chain(nvgpu::cells(gpu)).collect())
    };
    report.gpus.iter().enumerate().map(row).collect()
}

/// Reads a file with a secret, without the spaces around it.
pub(super) fn read_trimmed(path: &Path, what: &str) -> anyhow::Result<String> {
    let text = gua_files::read_regular(path, MAX_SECRET);
    let text = text.with_context(|| format!("cannot read the {what} `{}`", path.display()))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

pub(super) fn set_up(store: &SqliteStore) -> SetUp<'_> {
    SetUp {
        registry: store,
        now: clock::now(),
    }
}
