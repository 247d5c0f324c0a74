//! Accounts of all recorded time, computed like a report, but without sessions and imported rows.

use std::collections::BTreeMap;

use gua_model::account::{Accounts, GpuAccount, PersonAccount};
use gua_model::report::unbalanced;
use gua_model::{Micros, Period, State};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{Known, Result, Sums, count};
use crate::question::{AccountsQuestion, Question};
use crate::records::Records;

/// Time before the end in which the last activity of a GPU is searched for.
const ACTIVITY: SignedDuration = SignedDuration::from_hours(24);

/// Computes the accounts up to a time.
pub fn accounts(records: &dyn Records, question: &AccountsQuestion) -> Result<Accounts> {
    let until = question.until;
    let gpus = records.gpus()?;
    let thresholds = records.thresholds()?;
    let mut accounts = Accounts {
        known: gpus
            .iter()
            .map(|gpu| (gpu.uuid.clone(), gpu.known()))
            .collect(),
        thresholds,
        ..Accounts::default()
    };
    let Some(first) = gpus.iter().map(|gpu| gpu.first_seen).min() else {
        return Ok(accounts);
    };
    if first >= until {
        return Ok(accounts);
    }
    let question = Question::of_window(Period::new(first, until), TimeZone::UTC, until);
    let mut known = Known::read(records, &question)?;
    let sums = count(records, &mut known)?;
    accounts.unbalanced = unbalanced(&sums.notes).iter().cloned().collect();
    for gpu in &accounts.unbalanced {
        accounts.known.remove(gpu);
    }
    accounts.gpus = gpu_accounts(&sums);
    for row in sums.fold.people.rows() {
        let person = PersonAccount {
            held: row.sums.held,
            idle_held: row.sums.idle_held,
            charged: row.sums.charged,
        };
        accounts.people.insert(row.name, person);
    }
    let from = until.checked_sub(ACTIVITY).unwrap_or(Timestamp::MIN);
    records.spans(Period::new(from, until), thresholds, &mut |span| {
        if span.from < until
            && let Some(account) = accounts.gpus.get_mut(&span.gpu)
        {
            account.note_active(span);
        }
    })?;
    for account in accounts.gpus.values_mut() {
        account.last_active = account.last_active.map(|at| at.min(until));
    }
    Ok(accounts)
}

fn gpu_accounts(sums: &Sums) -> BTreeMap<gua_model::GpuUuid, GpuAccount> {
    let mut accounts: BTreeMap<_, GpuAccount> = BTreeMap::new();
    for (gpu, sums) in &sums.fold.gpus {
        let account = accounts.entry(gpu.clone()).or_default();
        for state in State::ALL {
            let micros = sums.state(state).micros;
            if state != State::Unobserved && micros > Micros(0) {
                account.states.insert(state, micros);
            }
        }
        account.held = sums.held.charged;
        account.energy = (sums.energy_known > Micros(0)).then_some(sums.energy);
    }
    for (gpu, (_, gaps)) in &sums.coverage {
        let account = accounts.entry(gpu.clone()).or_default();
        for gap in gaps {
            *account.unobserved.entry(gap.reason).or_default() += gap.micros;
        }
    }
    accounts
}
