//! `gua list --board`, `gua available --board` and `gua board login`: the GPUs of all hosts of a board.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::board::fleet::{Fleet, SavedTokens};
use gua_model::table::{Cell, Column, Table, Underline};
use gua_model::text::{gigabytes, sanitize};
use gua_model::{Bytes, State};
use gua_render::document::{Rows, pretty};
use gua_render::table::csv;
use gua_settings::inputs::{BOARD_TOKEN_VARIABLE, board_token};
use gua_wire::live::{HostState, LiveGpu, LiveValue};
use gua_wire::{ServerUrl, Token};

use super::super::enroll::typed;
use crate::cli::{AvailableArgs, ListArgs, TableFormat};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output;

/// One GPU of a board.
struct FleetGpu<'a> {
    host: &'a HostState,
    gpu: &'a LiveGpu,
}

fn columns<'a>() -> [Column<FleetGpu<'a>>; 9] {
    [
        Column::new("host", "host", |row| row.host.display_name.clone().into()),
        Column::new("index", "GPU", |row| row.gpu.index.into()),
        Column::new("name", "name", |row| row.gpu.name.clone().into()),
        Column::new("state", "state", |row| row.state().into()),
        Column::new("free", "free", |row| row.is_free().into()),
        Column::new("holders", "holders", |row| row.holders()),
        Column::new("util_percent", "util %", |row| {
            known(row.gpu.util_percent, |util| u64::from(util).into())
        }),
        Column::new("memory_used_gb", "used GB", |row| {
            known(row.gpu.memory_used_bytes, |used| {
                gigabytes(Bytes(used)).into()
            })
        }),
        Column::new("memory_total_gb", "of GB", |row| {
            known(row.gpu.memory_total_bytes, |total| {
                gigabytes(Bytes(total)).into()
            })
        }),
    ]
}

/// Columns that are too long for people.
fn long_columns<'a>() -> [Column<FleetGpu<'a>>; 2] {
    [
        Column::key("uuid", |row| row.gpu.uuid.as_str().into()),
        Column::key("observed_at", |row| row.host.report.observed_at.into()),
    ]
}

fn known<T>(value: LiveValue<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
    match value {
        LiveValue::Known(value) => cell(value),
        LiveValue::Missing { .. } => Cell::Missing,
    }
}

impl FleetGpu<'_> {
    /// State of the GPU. Nothing is known about a host that stopped reporting.
    fn state(&self) -> &'static str {
        match self.host.is_stale {
            true => State::Unobserved.as_str(),
            false => self.gpu.state.as_str(),
        }
    }

    fn is_free(&self) -> bool {
        !self.host.is_stale && self.host.maintenance.is_none() && self.gpu.is_free()
    }

    fn holders(&self) -> Cell {
        let owners = self.gpu.processes.iter();
        let owners = owners.filter_map(|process| process.owner.as_deref());
        let claimer = self
            .gpu
            .claim
            .as_ref()
            .and_then(|claim| claim.owner.as_deref());
        let names: BTreeSet<&str> = owners.chain(claimer).collect();
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", ")).into()
    }

    fn matches(&self, args: &AvailableArgs) -> bool {
        let gpu = self.gpu;
        let name = gpu.name.as_deref().unwrap_or_default().to_lowercase();
        let is_model = |part: &String| name.contains(&part.to_lowercase());
        let free = match (gpu.memory_total_bytes, gpu.memory_used_bytes) {
            (LiveValue::Known(total), LiveValue::Known(used)) => Some(total.saturating_sub(used)),
            _ => None,
        };
        let util = match gpu.util_percent {
            LiveValue::Known(util) => Some(util),
            LiveValue::Missing { .. } => None,
        };
        (args.gpu_model.is_empty() || args.gpu_model.iter().any(is_model))
            && args
                .min_free_memory
                .is_none_or(|least| free.is_some_and(|free| free >= least.0))
            && args
                .max_util
                .is_none_or(|most| util.is_some_and(|util| util <= most.get()))
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
    let token = match (board_token(), saved) {
        (Some(text), _) => Some(
            Token::new(&text)
                .map_err(|error| Failure::usage(format!("{BOARD_TOKEN_VARIABLE}: {error}")))?,
        ),
        (None, Some(saved)) => saved
            .get(board)
            .with_context(|| format!("cannot read `{}`", saved.path().display()))?,
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
            "gua list: {name} has not reported since {}\n",
            host.received_at
        ));
    }
    Ok(())
}

fn write(rows: &[FleetGpu<'_>], format: TableFormat, width: Option<usize>) -> String {
    let mut table = Table::of(&columns(), rows);
    if format != TableFormat::Text {
        let long = Table::of(&long_columns(), rows);
        table.columns.extend(long.columns);
        for (row, more) in table.rows.iter_mut().zip(long.rows) {
            row.extend(more);
        }
    }
    match format {
        TableFormat::Json => pretty(&Rows(table)),
        TableFormat::Csv => csv(&table),
        TableFormat::Text => {
            let lines = table.lines(width, Underline::No);
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
    let wanted = args
        .count
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
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
    if !is_enough {
        if !args.quiet {
            output::eprint(&match wanted {
                Some(wanted) if found > 0 => {
                    format!("gua available: {found} free, {wanted} wanted\n")
                }
                _ => "gua available: no GPU is free\n".to_owned(),
            });
        }
        return Ok(Exit::Nothing.into());
    }
    Ok(ExitCode::SUCCESS)
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
    let path = saved.path().display();
    saved
        .put(board, &token)
        .with_context(|| format!("cannot write `{path}`"))?;
    output::data(&format!(
        "gua board login: {board}, workspace {}\n  token stored in {path}\n",
        sanitize(&workspace)
    ))
}
