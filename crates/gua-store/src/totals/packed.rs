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
    Basis, GapReason, GpuDay, GpuQuarter, GpuTotal, GpuUuid, Micros, OwnerKey, OwnerTotal, Quarter,
    QuarterTotal, QuarterUse, State, Uid, User, UtcDay, VecMap, weigh_instances,
};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::Damage;
use crate::codec::wire::{Input, Wire, code_of, coded};
use crate::ticks::MICROS_PER_QUARTER;

const FORM: u8 = 4;
/// Form without the time that owners held free GPUs, used by schema 2.
const WITHOUT_FREE: u8 = 3;
/// Form with uids in place of owner ids, used by schema 1.
const WITH_UIDS: u8 = 2;
/// Form used by development versions before the first release.
const EARLIER: u8 = 1;
/// Form of imported rows. Earlier forms are not read: the rows are folded again.
pub(crate) const IMPORTED_FORM: u8 = 102;
const CHECKSUM_BYTES: usize = 8;

const HAS_FIRST: u8 = 1;
const HAS_LAST: u8 = 1 << 1;

type Done = Result<(), Damage>;

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
pub(crate) fn pack(quarter: Quarter, gpus: &[(u64, &QuarterTotal)], owners: OwnerIds) -> Vec<u8> {
    pack_with(quarter.into(), gpus, owners, pass_total)
}

/// Packs the GPUs of a day, with the same requirements as [`pack`].
pub(crate) fn pack_day(day: UtcDay, gpus: &[(u64, &GpuDay)], owners: OwnerIds) -> Vec<u8> {
    pack_with(day.into(), gpus, owners, pass_day)
}

fn pack_with<T: Clone>(
    bucket: Bucket,
    gpus: &[(u64, &T)],
    ids: OwnerIds,
    pass: fn(&mut Vec<u8>, &Form<'_>, &mut T) -> Done,
) -> Vec<u8> {
    let names = Names {
        ids,
        ..Names::default()
    };
    let form = Form {
        number: FORM,
        bucket,
        names: &names,
    };
    let mut out = vec![FORM];
    let mut write = || {
        out.count(&mut gpus.len())?;
        for (id, content) in gpus {
            out.number(&mut id.clone())?;
            pass(&mut out, &form, &mut T::clone(content))?;
        }
        Ok::<_, Damage>(())
    };
    write().expect("a writer accepts all totals");
    sealed(out, bucket)
}

/// Packs the GPUs of a quarter or a day of imported rows in the same envelope. Their content can be computed again from the
/// rows, so that its form may change with the schema.
pub(crate) fn pack_imported<T: Serialize>(bucket: impl Into<Bucket>, gpus: &[T]) -> Vec<u8> {
    let body = postcard::to_extend(gpus, vec![IMPORTED_FORM]);
    let body = body.expect("totals are plain data, which always serializes");
    sealed(body, bucket.into())
}

pub(crate) fn unpack_imported<T: DeserializeOwned>(
    bucket: impl Into<Bucket>,
    body: &[u8],
) -> Result<Vec<T>, Damage> {
    match opened(body, bucket.into())?.split_first() {
        Some((&IMPORTED_FORM, content)) => {
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

/// Format of the numbers of a body.
struct Form<'a> {
    number: u8,
    bucket: Bucket,
    names: &'a Names,
}

/// Reads or writes the totals of a GPU. A reader begins with empty totals.
fn pass_total<W: Wire>(wire: &mut W, form: &Form<'_>, total: &mut QuarterTotal) -> Done {
    pass_gpu(wire, form.bucket, &mut total.gpu)?;
    let mut count = total.states.len();
    wire.count(&mut count)?;
    for place in 0..count {
        let (mut key, mut sums) = entry(&total.states, place, (STATES[0], BASES[0]));
        let mut code = code_of(&STATES, &key.0) << 1 | code_of(&BASES, &key.1);
        wire.byte(&mut code)?;
        key.0 = coded(&STATES, code >> 1, "state")?;
        key.1 = coded(&BASES, code & 1, "basis")?;
        wire.number(&mut sums.micros.0)?;
        wire.number(&mut sums.energy.0)?;
        pass_less(wire, &mut sums.energy_known, sums.micros.0)?;
        in_order(!W::READS || total.states.push(key, sums))?;
    }
    let mut count = total.unobserved.len();
    wire.count(&mut count)?;
    for place in 0..count {
        let (mut reason, mut time) = entry(&total.unobserved, place, REASONS[0]);
        wire.one_of(&REASONS, &mut reason, "reason")?;
        wire.number(&mut time.0)?;
        in_order(!W::READS || total.unobserved.push(reason, time))?;
    }
    let mut count = total.owners.len();
    wire.count(&mut count)?;
    for place in 0..count {
        let (mut owner, mut sums) = entry(&total.owners, place, OwnerKey::Unknown);
        pass_owner(wire, form, &mut owner, &mut sums)?;
        if W::READS {
            total.owners.entry(owner).merge(&sums);
        }
    }
    wire.number(&mut total.gpu.ownerless.0)?;
    let unheld = unheld(total);
    pass_less(wire, &mut total.gpu.free, unheld)
}

/// Returns the entry at a position of a map, which a writer writes. A reader has no entry yet and begins with `key`.
fn entry<K: Clone, V: Copy + Default>(map: &VecMap<K, V>, place: usize, key: K) -> (K, V) {
    let known = map.iter().nth(place);
    known.map_or((key, V::default()), |(key, value)| (key.clone(), *value))
}

fn pass_owner<W: Wire>(
    wire: &mut W,
    form: &Form<'_>,
    owner: &mut OwnerKey,
    sums: &mut OwnerTotal,
) -> Done {
    let mut code = match &*owner {
        OwnerKey::Unknown => 0,
        known => {
            let id = form.names.ids.get(known);
            *id.expect("the caller has looked up every owner")
        }
    };
    wire.number(&mut code)?;
    if W::READS {
        *owner = form.names.owner(form.number, code)?;
    }
    wire.number(&mut sums.held.0)?;
    pass_less(wire, &mut sums.charged, sums.held.0)?;
    wire.number(&mut sums.idle_held.0)?;
    wire.number(&mut sums.energy.0)?;
    pass_less(wire, &mut sums.energy_known, sums.held.0)?;
    wire.number(&mut sums.ticks)?;
    match form.number {
        FORM => wire.number(&mut sums.free.0),
        _ => Ok(()),
    }
}

fn pass_gpu<W: Wire>(wire: &mut W, bucket: Bucket, sums: &mut GpuTotal) -> Done {
    let offset = |at: Option<Timestamp>| at.map(|at| at.as_microsecond() - bucket.start);
    let mut first = offset(sums.first);
    let mut before_end = offset(sums.last).map(|last| bucket.length - last);
    let flag = |offset: Option<i64>, bit: u8| offset.map_or(0, |_| bit);
    let mut there = flag(first, HAS_FIRST) | flag(before_end, HAS_LAST);
    wire.byte(&mut there)?;
    if there & !(HAS_FIRST | HAS_LAST) != 0 {
        return Err(Damage::Value("mark"));
    }
    for (bit, offset) in [(HAS_FIRST, &mut first), (HAS_LAST, &mut before_end)] {
        if there & bit == 0 {
            continue;
        }
        let mut number = offset.unwrap_or(0).unsigned_abs();
        wire.number(&mut number)?;
        if W::READS {
            let within = i64::try_from(number).ok();
            let within = within.filter(|offset| *offset <= bucket.length);
            *offset = Some(within.ok_or(Damage::Value("time"))?);
        }
    }
    let last = before_end.map(|before_end| bucket.length - before_end);
    if W::READS {
        let moment = |offset: i64| {
            let at = Timestamp::from_microsecond(bucket.start.saturating_add(offset));
            at.map_err(|_| Damage::Value("time"))
        };
        sums.first = first.map(moment).transpose()?;
        sums.last = last.map(moment).transpose()?;
    }
    wire.number(&mut sums.ticks)?;
    pass_less(wire, &mut sums.present, hull(first, last))?;
    wire.number(&mut sums.set_aside.0)?;
    let counted = sums.present.0.saturating_sub(sums.set_aside.0);
    pass_less(wire, &mut sums.observed, counted)?;
    wire.wide(&mut sums.util_sum)?;
    pass_less(wire, &mut sums.util_known, sums.observed.0)?;
    wire.number(&mut sums.energy.0)?;
    pass_less(wire, &mut sums.energy_known, sums.present.0)
}

/// Reads or writes the totals of a day, and the use of each of its quarters.
fn pass_day<W: Wire>(wire: &mut W, form: &Form<'_>, day: &mut GpuDay) -> Done {
    pass_total(wire, form, &mut day.total)?;
    for place in 0..UtcDay::QUARTERS {
        let mut quarter = day.quarters.get(place).copied().unwrap_or_default();
        let QuarterUse {
            observed, active, ..
        } = &mut quarter;
        pass_less(wire, observed, MICROS_PER_QUARTER.unsigned_abs())?;
        // Usually none or all of the time, either of which takes one byte.
        let rest = observed.0.saturating_sub(active.0);
        let mut code = match active.0 <= rest {
            true => active.0 << 1,
            false => rest << 1 | 1,
        };
        wire.number(&mut code)?;
        let part = (code >> 1).min(observed.0);
        active.0 = match code & 1 {
            0 => part,
            _ => observed.0 - part,
        };
        if W::READS {
            day.quarters.push(quarter);
        }
    }
    Ok(())
}

/// Reads or writes a time as its difference from the expected one.
fn pass_less<W: Wire>(wire: &mut W, time: &mut Micros, expected: u64) -> Done {
    let mut change = i128::from(expected) - i128::from(time.0);
    wire.signed(&mut change)?;
    if W::READS {
        let value = i128::from(expected).checked_sub(change);
        let value = value.and_then(|value| u64::try_from(value).ok());
        time.0 = value.ok_or(Damage::Value("difference"))?;
    }
    Ok(())
}

fn hull(first: Option<i64>, last: Option<i64>) -> u64 {
    match (first, last) {
        (Some(first), Some(last)) => last.saturating_sub(first).max(0).unsigned_abs(),
        _ => 0,
    }
}

/// Observed time that is neither charged to an owner nor known to be ownerless.
fn unheld(total: &QuarterTotal) -> u64 {
    let charged = total.owners.values().map(|sums| sums.charged.0);
    let taken = charged.fold(total.gpu.ownerless.0, u64::saturating_add);
    total.gpu.observed.0.saturating_sub(taken)
}

/// GPUs and owners by the ids used in bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) gpus: HashMap<u64, GpuUuid>,
    pub(crate) owners: HashMap<u64, OwnerKey>,
    /// Latest owner of each uid, for the form with uids.
    pub(crate) users: HashMap<Uid, OwnerKey>,
    /// Parents of MIG instances.
    pub(crate) parents: HashMap<GpuUuid, GpuUuid>,
    /// Ids of owners, for a writer.
    ids: OwnerIds,
}

impl Names {
    fn gpu(&self, id: u64) -> Result<GpuUuid, Damage> {
        self.gpus.get(&id).cloned().ok_or(Damage::Name("a GPU"))
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

/// Reads the GPUs of a quarter.
pub(crate) fn read(
    names: &Names,
    quarter: Quarter,
    body: &[u8],
) -> Result<Vec<GpuQuarter>, Damage> {
    let bucket = Bucket::from(quarter);
    decode(names, bucket, opened(body, bucket)?)
}

fn decode(names: &Names, bucket: Bucket, content: &[u8]) -> Result<Vec<GpuQuarter>, Damage> {
    let new = |gpu| GpuQuarter {
        gpu,
        total: QuarterTotal::default(),
    };
    let (mut gpus, form) = unpack_with(names, (bucket, content), new, |input, form, gpu| {
        pass_total(input, form, &mut gpu.total)
    })?;
    if form == WITH_UIDS && !names.parents.is_empty() {
        weigh_instances(&mut gpus, |gpu| names.parents.get(gpu));
    }
    Ok(gpus)
}

/// Reads the GPUs of a day.
pub(crate) fn read_day(names: &Names, day: UtcDay, body: &[u8]) -> Result<Vec<GpuDay>, Damage> {
    let bucket = Bucket::from(day);
    let content = opened(body, bucket)?;
    let new = |gpu| GpuDay {
        gpu,
        total: QuarterTotal::default(),
        quarters: Vec::with_capacity(UtcDay::QUARTERS),
    };
    Ok(unpack_with(names, (bucket, content), new, pass_day)?.0)
}

/// Reads the GPUs of a body. `new` creates the empty value of each GPU. Also returns the form of the body.
fn unpack_with<'content, T>(
    names: &Names,
    (bucket, content): (Bucket, &'content [u8]),
    new: fn(GpuUuid) -> T,
    pass: fn(&mut Input<'content>, &Form<'_>, &mut T) -> Done,
) -> Result<(Vec<T>, u8), Damage> {
    let mut input = Input(content);
    let (mut number, mut count) = (0, 0);
    input.byte(&mut number)?;
    match number {
        FORM | WITHOUT_FREE | WITH_UIDS => {}
        EARLIER => return Err(Damage::Earlier),
        other => return Err(Damage::Form(other)),
    }
    input.count(&mut count)?;
    let form = Form {
        number,
        bucket,
        names,
    };
    let (mut gpus, mut before) = (Vec::new(), None);
    for _ in 0..count {
        let mut id = 0;
        input.number(&mut id)?;
        let gpu = names.gpu(id)?;
        if before.as_ref().is_some_and(|before| *before >= gpu) {
            return Err(Damage::Value("order of GPUs"));
        }
        before = Some(gpu.clone());
        let mut content = new(gpu);
        pass(&mut input, &form, &mut content)?;
        gpus.push(content);
    }
    input.end()?;
    Ok((gpus, number))
}

fn in_order(is_so: bool) -> Result<(), Damage> {
    is_so.then_some(()).ok_or(Damage::Value("order"))
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
        gpus: (0..10).map(|id| (id, gpu(id))).collect(),
        owners: (1..10).map(user).collect(),
        users: HashMap::new(),
        parents: HashMap::from([1, 2].map(gpu).map(|instance| (instance, gpu(0)))),
        ids: OwnerIds::new(),
    };
    let day = Bucket::from(UtcDay(0));
    let _ = read_day(&names, UtcDay(0), &sealed(body.to_vec(), day));
    let imported = sealed(body.to_vec(), day);
    let _ = unpack_imported::<GpuDay>(UtcDay(0), &imported);
    let _ = unpack_imported::<GpuQuarter>(UtcDay(0), &imported);
    let _ = read(&names, Quarter(0), body);
    let last = Bucket::from(Quarter(i64::MAX));
    decode(&names, last, body).map(|gpus| gpus.len())
}

#[cfg(test)]
mod tests;
