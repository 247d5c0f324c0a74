//! `gua run --claim`: cards for the run. `gua available` asks for them, as a program of its own: what it does with signals
//! while it waits is then no matter of the job's. The lease is for this process, and ends with it at the latest.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use gua_claim::{ClaimDir, ClaimId};
use gua_run::end_by;
use serde_json::Value;

use crate::claims;
use crate::cli::RunArgs;
use crate::config::{CUDA_VISIBLE_DEVICES, Loaded};
use crate::duration::written;

/// Cards that are ours until this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    id: ClaimId,
    cards: Vec<String>,
    directory: ClaimDir,
}

pub(super) enum Obtained {
    Leased(Lease),
    /// It was told why.
    Refused(ExitCode),
}

impl Lease {
    /// UUIDs with commas.
    pub(super) fn cards(&self) -> String {
        self.cards.join(",")
    }

    /// What shows the job these cards alone. Numbers that it prints are then those of `nvidia-smi`.
    pub(super) fn variables(&self) -> Vec<(String, OsString)> {
        vec![
            (CUDA_VISIBLE_DEVICES.to_owned(), self.cards().into()),
            ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".into()),
        ]
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What stays ends with this process.
        let _ = self.directory.release(&self.id);
    }
}

pub(super) fn obtain(count: u32, args: &RunArgs, loaded: &Loaded) -> anyhow::Result<Obtained> {
    // The link and not the path behind it: after an update of the binary on disk it is still this program.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("gua")
        .args(["available", "--for-run", "--json", "--uuid"])
        .arg(format!("--count={count}"))
        .arg(format!(
            "--claim={}",
            written(loaded.settings.claim.longest.value)
        ))
        .arg(format!("--for={}", std::process::id()))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    match args.wait {
        None => {}
        Some(None) => _ = command.arg("--wait"),
        Some(Some(longest)) => _ = command.arg(format!("--wait={}", written(longest))),
    }
    if args.quiet {
        command.arg("--quiet");
    }
    let output = command.output().context("cannot ask for cards")?;
    if let Some(signal) = output.status.signal() {
        end_by(signal);
    }
    if !output.status.success() {
        let code = output
            .status
            .code()
            .and_then(|code| u8::try_from(code).ok());
        return Ok(Obtained::Refused(ExitCode::from(code.unwrap_or(1))));
    }
    let answer: Value =
        serde_json::from_slice(&output.stdout).context("`gua available` gave no answer")?;
    let lease = read(&answer, claims::directory(&loaded.settings)?);
    lease
        .map(Obtained::Leased)
        .context("`gua available` told of no claim")
}

fn read(answer: &Value, directory: ClaimDir) -> Option<Lease> {
    let card = |card: &Value| card["uuid"].as_str().map(str::to_owned);
    Some(Lease {
        id: answer["claim"]["id"].as_str()?.parse().ok()?,
        cards: answer["available"]
            .as_array()?
            .iter()
            .map(card)
            .collect::<Option<_>>()?,
        directory,
    })
}
