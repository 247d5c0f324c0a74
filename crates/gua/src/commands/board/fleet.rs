//! `gua list --board`, `gua available --board` and `gua board login`: the GPUs of all hosts of a board.

use std::collections::BTreeSet;

use gua_collector::board::fleet::{Fleet, SavedTokens};
use gua_model::table::Table;
use gua_model::text::{gigabyte_tenths, short_age};
use gua_model::{Bytes, Percent, State};
use gua_probe::clock;
use gua_render::document::Number;
use gua_render::listing::{FleetDocument, FleetRow};
use gua_settings::inputs::{BOARD_TOKEN_VARIABLE, board_token};
use gua_wire::live::{HostState, LiveGpu, LiveValue, ObstacleWord};
use gua_wire::{ServerUrl, Token};

use super::super::enroll::typed;
use crate::commands::prelude::*;

/// One GPU of a board.
struct FleetGpu<'a> {
    host: &'a HostState,
    gpu: &'a LiveGpu,
}

/// Position of the state in the columns of [`FleetRow`].
const STATE: usize = 2;

/// Number of columns in text output; the others are too wide.
const SHORT: usize = 10;

/// Format name of [`FleetDocument`].
#[cfg(test)]
const SCHEMA: &str = "gua.board-list.v1";

/// Memory in gigabytes, as a number.
fn gigabytes(bytes: u64) -> Option<Number> {
    let tenths = u32::try_from(gigabyte_tenths(Bytes(bytes))).ok()?;
    Some(Number(f64::from(tenths) / 10.0))
}

fn known<T>(value: LiveValue<T>) -> Option<T> {
    match value {
        LiveValue::Known(value) => Some(value),
        LiveValue::Missing { .. } => None,
    }
}

impl FleetGpu<'_> {
    fn row(&self) -> FleetRow {
        let gpu = self.gpu;
        FleetRow {
            host: self.host.display_name.clone(),
            index: gpu.index,
            state: self.state().as_str(),
            free: self.is_free(),
            util_percent: known(gpu.util_percent),
            memory_used_gb: known(gpu.memory_used_bytes).and_then(gigabytes),
            memory_total_gb: known(gpu.memory_total_bytes).and_then(gigabytes),
            health: self.health(),
            holders: self.holders(),
            name: gpu.name.clone(),
            uuid: gpu.uuid.to_string(),
            observed_at: self.host.report.observed_at,
        }
    }

    /// State of the GPU. Nothing is known about a host that stopped reporting.
    fn state(&self) -> State {
        match self.host.is_stale {
            true => State::Unobserved,
            false => self.gpu.state,
        }
    }

    /// Its faults in words. Missing if none is known, because a host does not report whether it could check.
    fn health(&self) -> Option<String> {
        let faults: Vec<&str> = self.gpu.health.iter().map(|word| word.in_words()).collect();
        (!faults.is_empty()).then(|| faults.join(", "))
    }

    fn is_free(&self) -> bool {
        !self.host.is_stale && self.host.maintenance.is_none() && self.gpu.is_free()
    }

    fn holders(&self) -> Option<String> {
        let owners = self.gpu.processes.iter();
        let owners = owners.filter_map(|process| process.owner.as_deref());
        let claim = self.gpu.claim.as_ref();
        let claimer = claim.and_then(|claim| claim.owner.as_deref());
        let names: BTreeSet<&str> = owners.chain(claimer).collect();
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn matches(&self, args: &AvailableArgs) -> bool {
        let gpu = self.gpu;
        let name = gpu.name.as_deref().unwrap_or_default().to_lowercase();
        let is_model = |part: &String| name.contains(&part.to_lowercase());
        let free = match (gpu.memory_total_bytes, gpu.memory_used_bytes) {
            (LiveValue::Known(total), LiveValue::Known(used)) => Some(total.saturating_sub(used)),
            _ => None,
        };
        let is_idle = |most: Percent| matches!(gpu.util_percent, LiveValue::Known(util) if util <= most.get());
        let has_room = |least: Bytes| free.is_some_and(|free| free >= least.0);
        (args.gpu_model.is_empty() || args.gpu_model.iter().any(is_model))
            && args.min_free_memory.is_none_or(has_room)
            && args.max_util.is_none_or(is_idle)
    }

    /// The GPU in the answer of `gua available`. A MIG instance has no index.
    fn named(&self, args: &AvailableArgs) -> String {
        let host = sanitize(&self.host.display_name);
        match args.uuid || self.gpu.instance.is_some() {
            true => format!("{host}:{}", self.gpu.uuid.as_str()),
            false => format!("{host}:{}", self.gpu.index),
        }
    }
}

/// GPUs that count, in the order of the board.
fn gpus(hosts: &[HostState]) -> impl Iterator<Item = FleetGpu<'_>> {
    let gpus = |host| HostState::gpus(host).map(move |gpu| FleetGpu { host, gpu });
    hosts.iter().flat_map(gpus)
}

fn hosts(board: &ServerUrl, context: &Context) -> anyhow::Result<Vec<HostState>> {
    let saved = SavedTokens::of(&context.loaded.inputs);
    let invalid = |error| Failure::usage(format!("{BOARD_TOKEN_VARIABLE}: {error}"));
    let token = match (board_token(), saved) {
        (Some(text), _) => Some(Token::new(&text).map_err(invalid)?),
        (None, Some(saved)) => {
            let token = saved.get(board);
            token.map_err(Failure::cannot("read", saved.path()))?
        }
        (None, None) => None,
    };
    let token = token.ok_or_else(|| {
        Failure::usage(format!("there is no API token for {board}")).hint(format!(
            "run `gua board login {board}`, or set {BOARD_TOKEN_VARIABLE}"
        ))
    })?;
    let fleet = Fleet::new(&context.loaded, board, token)?;
    fleet
        .hosts()
        .with_context(|| format!("cannot read the GPUs of {board}"))
}

pub(in crate::commands) fn list(
    args: &ListArgs,
    board: &ServerUrl,
    context: &Context,
) -> anyhow::Result<()> {
    let hosts = hosts(board, context)?;
    let rows: Vec<FleetGpu<'_>> = gpus(&hosts).collect();
    let width = match args.wide {
        true => None,
        false => output::width(),
    };
    output::data(&write(&rows, args.format.wanted(), width))?;
    for host in hosts.iter().filter(|host| host.is_stale) {
        let name = sanitize(&host.display_name);
        output::eprint(&format!(
            "gua list: {name} has not reported for {}\n",
            short_age(clock::now().duration_since(host.received_at).unsigned_abs())
        ));
    }
    Ok(())
}

fn write(rows: &[FleetGpu<'_>], format: TableFormat, width: Option<usize>) -> String {
    let shown: Vec<FleetRow> = rows.iter().map(FleetGpu::row).collect();
    let mut table = Table::of(FleetRow::COLUMNS, &shown);
    match format {
        TableFormat::Json => pretty(&FleetDocument(&shown)),
        TableFormat::Csv => csv(&table),
        TableFormat::Text => {
            table.columns.truncate(SHORT);
            for (cells, row) in table.rows.iter_mut().zip(rows) {
                cells.truncate(SHORT);
                if matches!(row.gpu.obstacle, None | Some(ObstacleWord::Unhealthy)) {
                    cells[STATE] = row.state().in_listings().into();
                }
            }
            let lines = table.lines(width);
            lines.map(|line| line + "\n").collect()
        }
    }
}

pub(in crate::commands) fn available(
    args: &AvailableArgs,
    board: &ServerUrl,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let hosts = hosts(board, context)?;
    let mut free: Vec<FleetGpu<'_>> = gpus(&hosts)
        .filter(|row| row.is_free() && row.matches(args))
        .collect();
    let found = free.len();
    let wanted = args.exactly();
    let is_enough = found > 0 && wanted.is_none_or(|wanted| found >= wanted);
    match wanted.or(args.limit.filter(|limit| *limit > 0)) {
        _ if !is_enough => free.clear(),
        Some(most) => free.truncate(most),
        None => {}
    }
    output::data(&match args.format.wanted() {
        TableFormat::Text => free.iter().map(|row| row.named(args) + "\n").collect(),
        format => write(&free, format, None),
    })?;
    if !is_enough && !args.quiet {
        output::eprint(&match wanted {
            Some(wanted) if found > 0 => format!("gua available: {found} free, {wanted} wanted\n"),
            _ => "gua available: no GPU is free\n".to_owned(),
        });
    }
    Ok(success_or(Exit::Nothing, is_enough))
}

/// Checks and stores an API token.
pub(in crate::commands) fn login(board: &ServerUrl, context: &Context) -> anyhow::Result<()> {
    let saved = SavedTokens::of(&context.loaded.inputs);
    let saved =
        saved.ok_or_else(|| Failure::usage("there is no home directory to store the token in"))?;
    let token = Token::new(&typed("API token of the board")?)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let fleet = Fleet::new(&context.loaded, board, token.clone())?;
    let workspace = fleet.workspace()?.unwrap_or_default();
    let path = saved.path();
    let stored = saved.put(board, &token);
    stored.map_err(Failure::cannot("write", path))?;
    output::data(&format!(
        "gua board login: {board}, workspace {}\n  token stored in {}\n",
        sanitize(&workspace),
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let (name, schema) = gua_render::schemas::named::<FleetDocument<'_>>(SCHEMA);
        gua_test::schema::assert_published(name, &pretty(&schema));
    }

    #[test]
    fn eighty_columns_keep_host_gpu_state_and_health_and_memory_is_a_number() {
        let report = serde_json::json!({
            "id": "h1", "displayName": "a-long-host-name-of-the-lab", "receivedAt": "2026-11-18T07:00:00Z", "isStale": false,
            "schemaVersion": "gua.live.v1", "observedAt": "2026-11-18T07:00:00Z", "waiting": 0, "problems": [],
            "host": {"hostname": "lab", "agentVersion": "0.1.0", "driverVersion": null},
            "gpus": [{
                "uuid": "GPU-a", "index": 4, "name": "NVIDIA A100-SXM4-80GB", "instance": null, "state": "truly-idle",
                "obstacle": "unhealthy", "utilPercent": 0, "memoryUsedBytes": 41_875_931_136_u64, "memoryTotalBytes": 85_899_345_920_u64,
                "temperatureCelsius": 40, "powerMilliwatts": 50_000, "health": ["uncorrected-errors"], "claim": null, "processes": []
            }]
        });
        let hosts: Vec<HostState> = vec![serde_json::from_value(report).unwrap()];
        let rows: Vec<FleetGpu<'_>> = gpus(&hosts).collect();
        let text = write(&rows, TableFormat::Text, Some(80));
        let line = text.lines().nth(1).unwrap();
        let start: Vec<&str> = line.split_whitespace().take(3).collect();
        assert_eq!(
            start,
            ["a-long-host-name-of-the-lab", "4", "free"],
            "{text}"
        );
        assert!(line.contains("uncorrected"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&write(&rows, TableFormat::Json, None)).unwrap();
        assert_eq!(json[0]["memory_used_gb"], 39.0);
        assert_eq!(json[0]["state"], "truly-idle");
        assert_eq!(json[0]["health"], "uncorrected memory errors");
        // The keys are the columns.
        let keys: BTreeSet<&str> = FleetRow::COLUMNS.iter().map(|column| column.key).collect();
        let named = json[0].as_object().unwrap().keys();
        assert_eq!(named.map(String::as_str).collect::<BTreeSet<_>>(), keys);
    }
}
