//! Totals as rows, and rows as totals.

use std::collections::HashMap;

use gua_model::{
    Basis, CardTotal, GpuUuid, Micros, Millijoules, OwnerTotal, Quarter, QuarterTotal, State,
    StateTotal, Totals, Uid,
};
use rusqlite::{Connection, params};

use crate::error::ReadError;
use crate::history::{gap_reason, time};
use crate::ticks::MICROS_PER_QUARTER;

const UNKNOWN_OWNER: i64 = -1;

/// Replaces the rows of the quarters `[from, to)` by what `totals` has for them.
pub(crate) fn save(
    connection: &Connection,
    (from, to): (i64, i64),
    totals: &Totals,
) -> rusqlite::Result<()> {
    for table in [
        "total_card",
        "total_state",
        "total_unobserved",
        "total_owner",
    ] {
        connection
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE quarter >= ?1 AND quarter < ?2"
            ))?
            .execute([from, to])?;
    }
    for (quarter, uuid, total) in totals.iter() {
        let card = crate::names::card(connection, uuid, 0)?.cast_signed();
        save_one(connection, quarter.0, card, total)?;
    }
    Ok(())
}

fn save_one(
    connection: &Connection,
    quarter: i64,
    card: i64,
    total: &QuarterTotal,
) -> rusqlite::Result<()> {
    let sums = &total.card;
    let start = quarter.saturating_mul(MICROS_PER_QUARTER);
    connection
        .prepare_cached(
            "INSERT INTO total_card VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            quarter,
            card,
            number(sums.ticks),
            sums.first
                .map(|at| at.as_microsecond().saturating_sub(start)),
            sums.last
                .map(|at| at.as_microsecond().saturating_sub(start)),
            number(sums.present.0),
            number(sums.set_aside.0),
            number(sums.observed.0),
            wide(sums.util_sum),
            number(sums.util_known.0),
            number(sums.energy.0),
            number(sums.energy_known.0),
        ])?;
    for ((state, basis), sums) in &total.states {
        connection
            .prepare_cached("INSERT INTO total_state VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![
                quarter,
                card,
                state_code(*state),
                basis_code(*basis),
                number(sums.micros.0),
                number(sums.energy.0),
            ])?;
    }
    for (reason, time) in &total.unobserved {
        connection
            .prepare_cached("INSERT INTO total_unobserved VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![quarter, card, reason.word(), number(time.0)])?;
    }
    for (owner, sums) in &total.owners {
        connection
            .prepare_cached("INSERT INTO total_owner VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
            .execute(params![
                quarter,
                card,
                owner.map_or(UNKNOWN_OWNER, |uid| uid.0.into()),
                number(sums.held.0),
                number(sums.charged.0),
                number(sums.idle_held.0),
                number(sums.energy.0),
                number(sums.ticks),
            ])?;
    }
    Ok(())
}

/// The stored totals of the quarters `[from, to)`.
pub(crate) fn load(connection: &Connection, (from, to): (i64, i64)) -> Result<Totals, ReadError> {
    let mut totals = Totals::default();
    if from >= to {
        return Ok(totals);
    }
    let cards = cards(connection)?;
    let mut statement = connection
        .prepare_cached("SELECT * FROM total_card WHERE quarter >= ?1 AND quarter < ?2")?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let total = entry(&mut totals, &cards, row.get(0)?, row.get(1)?)?;
        let sum = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let start = row.get::<_, i64>(0)?.saturating_mul(MICROS_PER_QUARTER);
        let moment = |column: usize| {
            let offset: Option<i64> = row.get(column)?;
            time(offset.map(|offset| start.saturating_add(offset)))
        };
        total.card = CardTotal {
            ticks: sum(2)?,
            first: moment(3)?,
            last: moment(4)?,
            present: Micros(sum(5)?),
            set_aside: Micros(sum(6)?),
            observed: Micros(sum(7)?),
            util_sum: sum(8)?.into(),
            util_known: Micros(sum(9)?),
            energy: Millijoules(sum(10)?),
            energy_known: Micros(sum(11)?),
        };
    }
    let mut statement = connection
        .prepare_cached("SELECT * FROM total_state WHERE quarter >= ?1 AND quarter < ?2")?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let total = entry(&mut totals, &cards, row.get(0)?, row.get(1)?)?;
        let sums = StateTotal {
            micros: Micros(row.get::<_, i64>(4)?.unsigned_abs()),
            energy: Millijoules(row.get::<_, i64>(5)?.unsigned_abs()),
        };
        let key = (to_state(row.get(2)?)?, to_basis(row.get(3)?)?);
        total.states.insert(key, sums);
    }
    let mut statement = connection
        .prepare_cached("SELECT * FROM total_unobserved WHERE quarter >= ?1 AND quarter < ?2")?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let total = entry(&mut totals, &cards, row.get(0)?, row.get(1)?)?;
        let reason = gap_reason(&row.get::<_, String>(2)?)?;
        let time = Micros(row.get::<_, i64>(3)?.unsigned_abs());
        total.unobserved.insert(reason, time);
    }
    let mut statement = connection
        .prepare_cached("SELECT * FROM total_owner WHERE quarter >= ?1 AND quarter < ?2")?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let total = entry(&mut totals, &cards, row.get(0)?, row.get(1)?)?;
        let sum = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let owner = match row.get(2)? {
            UNKNOWN_OWNER => None,
            uid => Some(Uid(u32::try_from(uid).map_err(|_| ReadError::Value("uid"))?)),
        };
        let sums = OwnerTotal {
            held: Micros(sum(3)?),
            charged: Micros(sum(4)?),
            idle_held: Micros(sum(5)?),
            energy: Millijoules(sum(6)?),
            ticks: sum(7)?,
        };
        total.owners.insert(owner, sums);
    }
    Ok(totals)
}

pub(crate) fn cards(connection: &Connection) -> Result<HashMap<i64, GpuUuid>, ReadError> {
    let mut statement = connection.prepare_cached("SELECT id, uuid FROM card")?;
    let mut rows = statement.query([])?;
    let mut cards = HashMap::new();
    while let Some(row) = rows.next()? {
        let uuid: String = row.get(1)?;
        let uuid = uuid.parse().map_err(|_| ReadError::Value("card"))?;
        cards.insert(row.get(0)?, uuid);
    }
    Ok(cards)
}

fn entry<'a>(
    totals: &'a mut Totals,
    cards: &HashMap<i64, GpuUuid>,
    quarter: i64,
    card: i64,
) -> Result<&'a mut QuarterTotal, ReadError> {
    let uuid = cards.get(&card).ok_or(ReadError::Value("card"))?;
    let of_quarter = totals.quarters.entry(Quarter(quarter)).or_default();
    Ok(of_quarter.entry(uuid.clone()).or_default())
}

fn state_code(state: State) -> i64 {
    match state {
        State::Active => 0,
        State::Stalled => 1,
        State::Ghost => 2,
        State::IdleHeld => 3,
        State::OrphanHeld => 4,
        State::HeldUnknown => 5,
        State::TrulyIdle => 6,
        State::Unobserved => 7,
    }
}

fn to_state(code: i64) -> Result<State, ReadError> {
    let known = State::ALL
        .into_iter()
        .find(|state| state_code(*state) == code);
    known.ok_or(ReadError::Value("state"))
}

fn basis_code(basis: Basis) -> i64 {
    match basis {
        Basis::Buffer => 0,
        Basis::Instant => 1,
    }
}

fn to_basis(code: i64) -> Result<Basis, ReadError> {
    match code {
        0 => Ok(Basis::Buffer),
        1 => Ok(Basis::Instant),
        _ => Err(ReadError::Value("basis")),
    }
}

/// Sums of a quarter hour are far below the limit; a clock that says otherwise is held there.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn wide(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
