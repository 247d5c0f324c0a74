//! `gua claim`: which cards are leased to whom, who waits, and giving leases back.

pub mod json;
mod table;

use std::process::ExitCode;

use gua_claim::{ClaimId, Look, Survey};
use gua_collector::chain::chain;
use gua_model::{Missing, Sample};

use crate::claims::words::Names;
use crate::claims::{Claims, blind_look, boot_of, look};
use crate::cli::ClaimCommand;
use crate::config::Loaded;
use crate::failure::Exit;
use crate::{driver, output};

pub fn run(command: &ClaimCommand, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let claims = Claims::open(&loaded.settings)?;
    match command {
        ClaimCommand::List { json } => list(&claims, loaded, *json),
        ClaimCommand::Release {
            ids,
            all_mine: false,
        } => release(&claims, ids),
        ClaimCommand::Release { .. } => release_own(&claims, loaded),
    }
}

/// The cards as they are now. Without a driver claims can still be told, except those that live by use alone.
struct Seen {
    sample: Option<Sample>,
    look: Look,
}

fn see(loaded: &Loaded, name: &str) -> anyhow::Result<Seen> {
    match driver::sample(&mut driver::reader(&loaded.settings), &loaded.settings) {
        Ok(sample) => Ok(Seen {
            look: look(&sample, boot_of(sample.boot)?, Vec::new()),
            sample: Some(sample),
        }),
        Err(fault) => {
            output::talk(&format!(
                "{name}: {}\n{name}: who is on which card is not known, so claims past their deadline are left out\n",
                chain(&fault)
            ));
            Ok(Seen {
                look: blind_look(boot_of(Err(Missing::Failed))?),
                sample: None,
            })
        }
    }
}

fn list(claims: &Claims, loaded: &Loaded, as_json: bool) -> anyhow::Result<ExitCode> {
    let seen = see(loaded, "gua claim list")?;
    let survey = claims.survey(&seen.look)?;
    let mut names = Names::default();
    match as_json {
        true => {
            let shown = json::listing(
                claims.dir.path(),
                &survey,
                &seen.look,
                seen.sample.as_ref(),
                &mut names,
            );
            output::raw(format!("{}\n", serde_json::to_string_pretty(&shown)?).as_bytes())?;
        }
        false => output::data(&table::text(
            &survey,
            &seen.look,
            seen.sample.as_ref(),
            &mut names,
        ))?,
    }
    tell_problems(&survey);
    Ok(match seen.sample {
        Some(_) => ExitCode::SUCCESS,
        None => Exit::Failed.into(),
    })
}

fn tell_problems(survey: &Survey) {
    for problem in &survey.problems {
        output::talk(&format!("gua claim list: {problem}; it does not count\n"));
    }
}

fn release(claims: &Claims, ids: &[ClaimId]) -> anyhow::Result<ExitCode> {
    let mut given_back = 0;
    for id in ids {
        match claims.dir.release(id) {
            Ok(released) => {
                given_back += 1;
                if released.len() > 1 {
                    let mut names = Names::default();
                    let owners = released.iter().map(|claim| names.user(claim.owner));
                    let owners = owners.collect::<Vec<_>>().join(", ");
                    output::talk(&format!(
                        "gua claim release: several had a claim {id}, all are given back: {owners}\n"
                    ));
                }
            }
            Err(error) => output::talk(&format!("gua claim release: {}\n", chain(&error))),
        }
    }
    output::talk(&format!("gua claim release: {given_back} given back\n"));
    Ok(match given_back == ids.len() {
        true => ExitCode::SUCCESS,
        false => Exit::Failed.into(),
    })
}

fn release_own(claims: &Claims, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let seen = see(loaded, "gua claim release")?;
    let survey = claims.survey(&seen.look)?;
    let own = survey
        .claims
        .iter()
        .filter(|live| live.claim.owner == claims.dir.me());
    let own: Vec<ClaimId> = own.map(|live| live.claim.id.clone()).collect();
    release(claims, &own)
}
