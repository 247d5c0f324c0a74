//! Encoding of the GPUs of one quarter hour, or of one day, as bytes: a form byte, the GPUs in the order of their
//! names, and a checksum.
//!
//! Form 4 identifies owners by their id in the table `owner`. Form 3, of schema 2, lacks the time that owners held free GPUs.
//! Form 2, of schema 1, also has uids in place of ids, and counts every MIG instance as one GPU; its readers reduce them. A day
//! also has, for each GPU, the observed and the active time of each of its quarters.
//!
//! Most numbers follow from others (a GPU seen all the time was present, observed and measured all the time), so each
//! is stored as the difference from its expected value, which usually takes one byte. This is part of the file format:
//! a released form is never changed. No input makes the decoder panic, and altered bytes fail the checksum.

use std::collections::HashMap;

use gua_model::{
    Basis, GapReason, GpuDay, GpuQuarter, GpuTotal, GpuUuid, Micros, Millijoules, OwnerKey,
    OwnerTotal, Quarter, QuarterTotal, QuarterUse, State, StateTotal, Uid, User, UtcDay,
    weigh_instances,
};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::Damage;
use crate::codec::varint::{self, Input};
use crate::ticks::MICROS_PER_QUARTER;

const FORM: u8 = 4;
/// Form without the time that owners held free GPUs, used by schema 2.
const WITHOUT_FREE: u8 = 3;
/// Form with uids in place of owner ids, used by schema 1.
const WITH_UIDS: u8 = 2;
/// Form used by development versions before the first release.
const EARLIER: u8 = 1;
/// Form of imported rows. Earlier forms are not read: the rows are folded again.
const IMPORTED: u8 = 101;
const CHECKSUM_BYTES: usize = 8;

const HAS_FIRST: u8 = 1;
const HAS_LAST: u8 = 1 << 1;

/// Time range that a body covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Start and length in microseconds.
    start: i64,
    length: i64,
    /// Included in the checksum, to detect a body stored at the wrong time.
    mark: u64,
}

impl From<Quarter> for Bucket {
    fn from(quarter: Quarter) -> Self {
        Self {
            start: quarter.0.saturating_mul(MICROS_PER_QUARTER),
            length: MICROS_PER_QUARTER,
            mark: quarter.0.cast_unsigned(),
        }
    }
}

impl From<UtcDay> for Bucket {
    fn from(day: UtcDay) -> Self {
        let length = MICROS_PER_QUARTER * i64::try_from(UtcDay::QUARTERS).unwrap_or(i64::MAX);
        Self {
            start: day.0.saturating_mul(length),
            length,
            mark: !day.0.cast_unsigned(),
        }
    }
}

/// Ids of owners in the table `owner`.
pub(crate) type OwnerIds = HashMap<OwnerKey, u64>;

/// Packs the GPUs of a quarter, which are given in the order of their names. `owners` must contain each of their
/// owners.
pub(crate) fn pack(quarter: Quarter, cards: &[(u64, &QuarterTotal)], owners: &OwnerIds) -> Vec<u8> {
    let bucket = Bucket::from(quarter);
    let mut out = vec![FORM];
    put(&mut out, cards.len() as u64);
    for (card, total) in cards {
        pack_total(&mut out, bucket, (*card, total), owners);
    }
    sealed(out, bucket)
}

/// Packs the GPUs of a day, with the same requirements as [`pack`].
pub(crate) fn pack_day(day: UtcDay, cards: &[(u64, &GpuDay)], owners: &OwnerIds) -> Vec<u8> {
    let bucket = Bucket::from(day);
    let mut out = vec![FORM];
    put(&mut out, cards.len() as u64);
    for (card, day) in cards {
        pack_total(&mut out, bucket, (*card, &day.total), owners);
        for quarter in &day.quarters {
            put_less(
                &mut out,
                MICROS_PER_QUARTER.unsigned_abs(),
                quarter.observed.0,
            );
            // Usually none or all of the time, either of which takes one byte.
            let (active, rest) = (
                quarter.active.0,
                quarter.observed.0.saturating_sub(quarter.active.0),
            );
            match active <= rest {
                true => put(&mut out, active << 1),
                false => put(&mut out, rest << 1 | 1),
            }
        }
    }
    sealed(out, bucket)
}

/// Packs the GPUs of a quarter or a day of imported rows in the same envelope. Their content can be computed again from the
/// rows, so that its form may change with the schema.
pub(crate) fn pack_imported<T: Serialize>(bucket: impl Into<Bucket>, gpus: &[T]) -> Vec<u8> {
    let body = postcard::to_extend(gpus, vec![IMPORTED]);
    let body = body.expect("totals are plain data, which always serializes");
    sealed(body, bucket.into())
}

pub(crate) fn unpack_imported<T: DeserializeOwned>(
    bucket: impl Into<Bucket>,
    body: &[u8],
) -> Result<Vec<T>, Damage> {
    match opened(body, bucket.into())?.split_first() {
        Some((&IMPORTED, content)) => {
            postcard::from_bytes(content).map_err(|_| Damage::Value("total of imported rows"))
        }
        Some((form, _)) => Err(Damage::Form(*form)),
        None => Err(Damage::Short),
    }
}

fn sealed(mut out: Vec<u8>, bucket: Bucket) -> Vec<u8> {
    let sum = checksum(bucket, &out);
    out.extend(sum.to_le_bytes());
    out
}

fn pack_total(
    out: &mut Vec<u8>,
    bucket: Bucket,
    (card, total): (u64, &QuarterTotal),
    owners: &OwnerIds,
) {
    put(out, card);
    pack_gpu(out, bucket, &total.card);
    put(out, total.states.len() as u64);
    for ((state, basis), sums) in &total.states {
        out.push(code(&STATES, state) << 1 | code(&BASES, basis));
        put(out, sums.micros.0);
        put(out, sums.energy.0);
        put_less(out, sums.micros.0, sums.energy_known.0);
    }
    put(out, total.unobserved.len() as u64);
    for (reason, time) in &total.unobserved {
        out.push(code(&REASONS, reason));
        put(out, time.0);
    }
    put(out, total.owners.len() as u64);
    for (owner, sums) in &total.owners {
        let id = match owner {
            OwnerKey::Unknown => Some(&0),
            known => owners.get(known),
        };
        put(out, *id.expect("the caller has looked up every owner"));
        put(out, sums.held.0);
        put_less(out, sums.held.0, sums.charged.0);
        put(out, sums.idle_held.0);
        put(out, sums.energy.0);
        put_less(out, sums.held.0, sums.energy_known.0);
        put(out, sums.ticks);
        put(out, sums.free.0);
    }
    put(out, total.card.ownerless.0);
    put_less(out, unheld(total), total.card.free.0);
}

fn pack_gpu(out: &mut Vec<u8>, bucket: Bucket, sums: &GpuTotal) {
    let offset = |at: Option<Timestamp>| at.map(|at| at.as_microsecond() - bucket.start);
    let (first, last) = (offset(sums.first), offset(sums.last));
    let flag = |there: bool, bit: u8| if there { bit } else { 0 };
    out.push(flag(first.is_some(), HAS_FIRST) | flag(last.is_some(), HAS_LAST));
    if let Some(first) = first {
        put(out, first.unsigned_abs());
    }
    if let Some(last) = last {
        put(out, (bucket.length - last).unsigned_abs());
    }
    put(out, sums.ticks);
    put_less(out, hull(first, last), sums.present.0);
    put(out, sums.set_aside.0);
    put_less(out, counted(sums), sums.observed.0);
    varint::put(out, sums.util_sum);
    put_less(out, sums.observed.0, sums.util_known.0);
    put(out, sums.energy.0);
    put_less(out, sums.present.0, sums.energy_known.0);
}

fn hull(first: Option<i64>, last: Option<i64>) -> u64 {
    match (first, last) {
        (Some(first), Some(last)) => last.saturating_sub(first).max(0).unsigned_abs(),
        _ => 0,
    }
}

fn counted(sums: &GpuTotal) -> u64 {
    sums.present.0.saturating_sub(sums.set_aside.0)
}

/// Observed time that is neither charged to an owner nor known to be ownerless.
fn unheld(total: &QuarterTotal) -> u64 {
    let charged = total.owners.values().map(|sums| sums.charged.0);
    let taken = charged.fold(total.card.ownerless.0, u64::saturating_add);
    total.card.observed.0.saturating_sub(taken)
}

/// Reads quarters, reusing the buffers of the previous one.
pub(crate) struct Reader {
    names: Names,
    /// Ids of the GPUs in `cards`.
    ids: Vec<u64>,
    cards: Vec<GpuQuarter>,
    filled: usize,
}

/// GPUs and owners by the ids used in bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) cards: HashMap<u64, GpuUuid>,
    pub(crate) owners: HashMap<u64, OwnerKey>,
    /// Latest owner of each uid, for the form with uids.
    pub(crate) users: HashMap<Uid, OwnerKey>,
    /// Parents of MIG instances.
    pub(crate) parents: HashMap<GpuUuid, GpuUuid>,
}

impl Names {
    fn card(&self, id: u64) -> Result<GpuUuid, Damage> {
        self.cards.get(&id).cloned().ok_or(Damage::Name("a GPU"))
    }

    fn owner(&self, form: u8, code: u64) -> Result<OwnerKey, Damage> {
        match (form, code) {
            (_, 0) => Ok(OwnerKey::Unknown),
            (WITH_UIDS, code) => {
                let uid = u32::try_from(code - 1).map_err(|_| Damage::Value("user"))?;
                let uid = Uid(uid);
                let nameless = || OwnerKey::User(User { uid, name: None });
                Ok(self.users.get(&uid).cloned().unwrap_or_else(nameless))
            }
            (_, id) => {
                let owner = self.owners.get(&id).ok_or(Damage::Name("an owner"))?;
                Ok(owner.clone())
            }
        }
    }
}

/// Verifies the checksum and returns the content after the form byte.
fn opened(body: &[u8], bucket: Bucket) -> Result<&[u8], Damage> {
    let (bytes, sum) = body
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(Damage::Short)?;
    match u64::from_le_bytes(*sum) == checksum(bucket, bytes) {
        true => Ok(bytes),
        false => Err(Damage::Checksum),
    }
}

fn form(input: &mut Input<'_>) -> Result<u8, Damage> {
    match input.byte()? {
        form @ (FORM | WITHOUT_FREE | WITH_UIDS) => Ok(form),
        EARLIER => Err(Damage::Earlier),
        other => Err(Damage::Form(other)),
    }
}

/// Reads the GPUs of a day.
pub(crate) fn read_day(names: &Names, day: UtcDay, body: &[u8]) -> Result<Vec<GpuDay>, Damage> {
    let bucket = Bucket::from(day);
    let mut input = Input::new(opened(body, bucket)?);
    let form = form(&mut input)?;
    let mut cards: Vec<GpuDay> = Vec::new();
    for _ in 0..input.count()? {
        let mut card = GpuDay::new(names.card(input.number()?)?);
        unpack(&mut input, (bucket, form), names, &mut card.total)?;
        for quarter in &mut card.quarters {
            let observed = less(&mut input, MICROS_PER_QUARTER.unsigned_abs())?;
            let code = input.number()?;
            let part = (code >> 1).min(observed);
            let active = match code & 1 {
                0 => part,
                _ => observed - part,
            };
            *quarter = QuarterUse {
                observed: Micros(observed),
                active: Micros(active),
                ..QuarterUse::default()
            };
        }
        in_order(cards.last().is_none_or(|before| before.gpu < card.gpu))?;
        cards.push(card);
    }
    input.end()?;
    Ok(cards)
}

impl Reader {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            ids: Vec::new(),
            cards: Vec::new(),
            filled: 0,
        }
    }

    pub(crate) fn read(&mut self, quarter: Quarter, body: &[u8]) -> Result<&[GpuQuarter], Damage> {
        let bucket = Bucket::from(quarter);
        self.decode(bucket, opened(body, bucket)?)
    }

    /// Whether the file has MIG instances.
    pub(crate) fn has_instances(&self) -> bool {
        !self.names.parents.is_empty()
    }

    /// The GPUs read last, with their ids.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (u64, &QuarterTotal)> {
        let cards = self.cards.iter().take(self.filled);
        self.ids.iter().copied().zip(cards.map(|card| &card.total))
    }

    fn decode(&mut self, bucket: Bucket, bytes: &[u8]) -> Result<&[GpuQuarter], Damage> {
        self.filled = 0;
        let mut input = Input::new(bytes);
        let form = form(&mut input)?;
        let count = input.count()?;
        for place in 0..count {
            let id = input.number()?;
            self.make_room(place, id)?;
            let total = &mut self.cards[place].total;
            unpack(&mut input, (bucket, form), &self.names, total)?;
            self.filled = place + 1;
        }
        input.end()?;
        if form == WITH_UIDS && !self.names.parents.is_empty() {
            weigh_instances(&mut self.cards[..count], |gpu| self.names.parents.get(gpu));
        }
        Ok(&self.cards[..count])
    }

    /// Assigns the slot to the GPU. It usually has it already, since the previous quarter had the same GPUs.
    fn make_room(&mut self, place: usize, id: u64) -> Result<(), Damage> {
        if self.ids.get(place) != Some(&id) {
            let gpu = self.names.card(id)?;
            self.ids.truncate(place);
            self.cards.truncate(place);
            self.ids.push(id);
            self.cards.push(GpuQuarter {
                gpu,
                total: QuarterTotal::default(),
            });
        }
        let before = place
            .checked_sub(1)
            .and_then(|before| self.cards.get(before));
        if before.is_some_and(|before| before.gpu >= self.cards[place].gpu) {
            return Err(Damage::Value("order of GPUs"));
        }
        self.cards[place].total.clear();
        Ok(())
    }
}

fn unpack(
    input: &mut Input<'_>,
    (bucket, form): (Bucket, u8),
    names: &Names,
    total: &mut QuarterTotal,
) -> Result<(), Damage> {
    total.card = unpack_gpu(input, bucket)?;
    for _ in 0..input.count()? {
        let code = input.byte()?;
        let state = value(&STATES, code >> 1, "state")?;
        let key = (state, value(&BASES, code & 1, "basis")?);
        let micros = input.number()?;
        let sums = StateTotal {
            micros: Micros(micros),
            energy: Millijoules(input.number()?),
            energy_known: Micros(less(input, micros)?),
            ticks: 0,
        };
        in_order(total.states.push(key, sums))?;
    }
    for _ in 0..input.count()? {
        let reason = value(&REASONS, input.byte()?, "reason")?;
        in_order(total.unobserved.push(reason, Micros(input.number()?)))?;
    }
    for _ in 0..input.count()? {
        let owner = names.owner(form, input.number()?)?;
        let held = input.number()?;
        let sums = OwnerTotal {
            held: Micros(held),
            charged: Micros(less(input, held)?),
            idle_held: Micros(input.number()?),
            energy: Millijoules(input.number()?),
            energy_known: Micros(less(input, held)?),
            ticks: input.number()?,
            free: match form {
                FORM => Micros(input.number()?),
                _ => Micros(0),
            },
            ..OwnerTotal::default()
        };
        total.owners.entry(owner).merge(&sums);
    }
    total.card.ownerless = Micros(input.number()?);
    total.card.free = Micros(less(input, unheld(total))?);
    Ok(())
}

fn unpack_gpu(input: &mut Input<'_>, bucket: Bucket) -> Result<GpuTotal, Damage> {
    let there = input.byte()?;
    if there & !(HAS_FIRST | HAS_LAST) != 0 {
        return Err(Damage::Value("mark"));
    }
    let mut offset = |bit: u8| -> Result<Option<i64>, Damage> {
        if there & bit == 0 {
            return Ok(None);
        }
        let offset = i64::try_from(input.number()?).ok();
        let within = offset.filter(|offset| *offset <= bucket.length);
        within.map(Some).ok_or(Damage::Value("time"))
    };
    let first = offset(HAS_FIRST)?;
    let last = offset(HAS_LAST)?.map(|before_end| bucket.length - before_end);
    let moment = |offset: Option<i64>| match offset {
        None => Ok(None),
        Some(offset) => Timestamp::from_microsecond(bucket.start.saturating_add(offset))
            .map(Some)
            .map_err(|_| Damage::Value("time")),
    };
    let mut sums = GpuTotal {
        first: moment(first)?,
        last: moment(last)?,
        ticks: input.number()?,
        ..GpuTotal::default()
    };
    sums.present = Micros(less(input, hull(first, last))?);
    sums.set_aside = Micros(input.number()?);
    sums.observed = Micros(less(input, counted(&sums))?);
    sums.util_sum = input.wide()?;
    sums.util_known = Micros(less(input, sums.observed.0)?);
    sums.energy = Millijoules(input.number()?);
    sums.energy_known = Micros(less(input, sums.present.0)?);
    Ok(sums)
}

fn in_order(is_so: bool) -> Result<(), Damage> {
    is_so.then_some(()).ok_or(Damage::Value("order"))
}

fn put(out: &mut Vec<u8>, value: u64) {
    varint::put(out, value.into());
}

/// Writes a number as its difference from an expected value.
fn put_less(out: &mut Vec<u8>, known: u64, value: u64) {
    varint::put(out, varint::fold(i128::from(known) - i128::from(value)));
}

fn less(input: &mut Input<'_>, known: u64) -> Result<u64, Damage> {
    if input.zero() {
        return Ok(known);
    }
    let value = i128::from(known).checked_sub(input.signed()?);
    let value = value.and_then(|value| u64::try_from(value).ok());
    value.ok_or(Damage::Value("difference"))
}

/// Computes a checksum over eight bytes at a time. Every step is invertible, so a change within eight bytes is always
/// detected, and any other change is missed with probability 2^-64. The time is included, to detect a body stored at the
/// wrong time.
fn checksum(bucket: Bucket, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = mix(bytes.len() as u64, bucket.mark);
    for word in words {
        sum = mix(sum, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(sum, u64::from_le_bytes(last)), 0)
}

/// Codes of the file format: the place in these tables.
const STATES: [State; 8] = [
    State::Active,
    State::Stalled,
    State::Ghost,
    State::IdleHeld,
    State::OrphanHeld,
    State::HeldUnknown,
    State::TrulyIdle,
    State::Unobserved,
];
const BASES: [Basis; 2] = [Basis::Buffer, Basis::Instant];
const REASONS: [GapReason; 10] = GapReason::ALL;

fn code<T: PartialEq>(table: &[T], value: &T) -> u8 {
    let place = table.iter().position(|known| known == value);
    let place = place.expect("the table has every value of own totals");
    u8::try_from(place).expect("a table of codes is short")
}

fn value<T: Copy>(table: &[T], code: u8, what: &'static str) -> Result<T, Damage> {
    table
        .get(usize::from(code))
        .copied()
        .ok_or(Damage::Value(what))
}

/// Decodes random bytes as the totals of a quarter hour, for fuzzing: returns the number of GPUs or a [`Damage`].
pub fn decode_any_totals(body: &[u8]) -> Result<usize, Damage> {
    let gpu = |id: u64| -> GpuUuid {
        let uuid = format!("GPU-{id}");
        uuid.parse().expect("letters and a number")
    };
    let user = |id: u32| {
        let (uid, name) = (Uid(id), None);
        (u64::from(id), OwnerKey::User(User { uid, name }))
    };
    let names = Names {
        cards: (0..10).map(|id| (id, gpu(id))).collect(),
        owners: (1..10).map(user).collect(),
        users: HashMap::new(),
        parents: HashMap::from([1, 2].map(gpu).map(|instance| (instance, gpu(0)))),
    };
    let day = Bucket::from(UtcDay(0));
    let _ = read_day(&names, UtcDay(0), &sealed(body.to_vec(), day));
    let imported = sealed(body.to_vec(), day);
    let _ = unpack_imported::<GpuDay>(UtcDay(0), &imported);
    let _ = unpack_imported::<GpuQuarter>(UtcDay(0), &imported);
    let mut reader = Reader::new(names);
    let _ = reader.read(Quarter(0), body);
    let last = Bucket::from(Quarter(i64::MAX));
    reader.decode(last, body).map(<[_]>::len)
}

#[cfg(test)]
mod tests;
