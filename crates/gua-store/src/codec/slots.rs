//! Readings of a GPU as an array of numbers. The order is part of the stored format: readings that change often come
//! first, so that the mask of changes is short.
//!
//! The slot of each reading is declared in [`gua_model::readings`]. The slots below are for the GPU's index, name and
//! place.

use gua_model::sample::Slice;
use gua_model::{Gpu, Missing, Place, READINGS, Reading, ReadingKind};

use super::frame::{borrowed, convert, gpu_uuid, text};
use super::{Damage, Lookup, Names};

/// A number, or the reason it is missing.
pub(crate) type Slot = Reading<u64>;

/// Number of slots. It may grow up to 61: a new reading takes the next slot, which is missing in older files.
pub(crate) const SLOTS: usize = 34;
pub(crate) type Slots = [Slot; SLOTS];

/// Slots of a GPU that has no readings yet. Unused slots stay like this: a slot that never changes costs nothing.
pub(crate) const EMPTY: Slots = [Ok(0); SLOTS];

const POWER: usize = ReadingKind::of("power").slot;
const ENERGY: usize = ReadingKind::of("energy").slot;
const ECC_CORRECTED: usize = ReadingKind::of("ecc_corrected").slot;
const ECC_UNCORRECTED: usize = ReadingKind::of("ecc_uncorrected").slot;

const INDEX: usize = 22;
const NAME: usize = 23;
const PLACE: usize = 25;
const INSTANCES: usize = 26;
const PARENT: usize = 27;
const GPU_INSTANCE: usize = 28;
const COMPUTE_INSTANCE: usize = 29;
const SLICE: usize = 30;

/// First slot that the first release left unused. Its files have 0 there, which must not be read as a reading of 0:
/// from this slot on, 0 means [`Missing::Unsupported`], and a value is stored plus one.
const FIRST_ADDED: usize = 31;

/// Values of the slot `PLACE`.
const IS_WHOLE: u64 = 0;
const IS_PARENT: u64 = 1;
const IS_INSTANCE: u64 = 2;

/// Returns the value that a slot is compared with: the previous one or, for the energy counter, the value predicted
/// from the power reading. Power is slot 0, so it is known first.
pub(crate) fn expected(slot: usize, now: &Slots, before: Slot, elapsed_ms: u64) -> Slot {
    match (slot, now[POWER], before) {
        (ENERGY, Ok(power), Ok(energy)) => {
            Ok(energy.wrapping_add(power.wrapping_mul(elapsed_ms) / 1000))
        }
        _ => before,
    }
}

pub(crate) fn from_gpu<N: Names>(gpu: &Gpu, names: &mut N) -> Result<Slots, N::Error> {
    let mut slots = EMPTY;
    for reading in READINGS {
        slots[reading.slot] = to_slot(reading.slot, (reading.stored)(gpu));
    }
    if gpu.ecc_mode.is_err() {
        // The format stores the reason only in the slot of the mode.
        slots[ECC_CORRECTED] = Ok(0);
        slots[ECC_UNCORRECTED] = Ok(0);
    }
    slots[INDEX] = Ok(gpu.index.into());
    match &gpu.place {
        Place::Whole => slots[PLACE] = Ok(IS_WHOLE),
        Place::Parent { instances } => {
            slots[PLACE] = Ok(IS_PARENT);
            slots[INSTANCES] = Ok((*instances).into());
        }
        Place::Instance {
            parent,
            gpu_instance,
            compute_instance,
            slice,
        } => {
            slots[PLACE] = Ok(IS_INSTANCE);
            slots[PARENT] = Ok(names.gpu(parent)?);
            slots[GPU_INSTANCE] = gpu_instance.map(Into::into);
            slots[COMPUTE_INSTANCE] = compute_instance.map(Into::into);
            slots[SLICE] = slice.map(|slice| packed(slice.slices, slice.of));
        }
    }
    slots[NAME] = convert(borrowed(&gpu.name), |name| names.text(name))?;
    Ok(slots)
}

/// Returns the GPU that the slots describe, without its window and its processes.
pub(crate) fn to_gpu<L: Lookup>(id: u64, slots: &Slots, lookup: &mut L) -> Result<Gpu, Damage> {
    let index = known(slots[INDEX], "index")?;
    let mut gpu = Gpu::without_readings(gpu_uuid(lookup, id)?, index, Missing::Failed);
    for reading in READINGS {
        (reading.restore)(&mut gpu, from_slot(reading.slot, slots[reading.slot]))
            .map_err(|_| Damage::Value(reading.label))?;
    }
    if let Err(why) = gpu.ecc_mode {
        gpu.ecc_corrected = Err(why);
        gpu.ecc_uncorrected = Err(why);
    }
    gpu.name = convert(slots[NAME], |id| text(lookup, id))?;
    let small = |value: u64| u32::try_from(value).map_err(|_| Damage::Value("instance"));
    gpu.place = match (slots[PLACE], slots[PARENT]) {
        (Ok(IS_WHOLE), _) => Place::Whole,
        (Ok(IS_PARENT), _) => Place::Parent {
            instances: known(slots[INSTANCES], "number of instances")?,
        },
        (Ok(IS_INSTANCE), Ok(parent)) => Place::Instance {
            parent: gpu_uuid(lookup, parent)?,
            gpu_instance: convert(slots[GPU_INSTANCE], small)?,
            compute_instance: convert(slots[COMPUTE_INSTANCE], small)?,
            slice: slots[SLICE].map(|both| Slice {
                slices: upper(both),
                of: lower(both),
            }),
        },
        _ => return Err(Damage::Value("place")),
    };
    Ok(gpu)
}

fn to_slot(slot: usize, reading: Reading<u64>) -> Slot {
    match reading {
        _ if slot < FIRST_ADDED => reading,
        Ok(value) => value.checked_add(1).ok_or(Missing::Failed),
        Err(Missing::Unsupported) => Ok(0),
        Err(why) => Err(why),
    }
}

fn from_slot(slot: usize, stored: Slot) -> Reading<u64> {
    match stored {
        _ if slot < FIRST_ADDED => stored,
        Ok(stored) => stored.checked_sub(1).ok_or(Missing::Unsupported),
        Err(why) => Err(why),
    }
}

/// Returns a number that is never missing.
fn known(slot: Slot, what: &'static str) -> Result<u32, Damage> {
    let number = slot.ok().and_then(|value| u32::try_from(value).ok());
    number.ok_or(Damage::Value(what))
}

/// Two numbers in one.
pub(super) fn packed(upper: u32, lower: u32) -> u64 {
    (u64::from(upper) << 32) | u64::from(lower)
}

pub(super) fn upper(packed: u64) -> u32 {
    u32::try_from(packed >> 32).expect("32 bits are left")
}

pub(super) fn lower(packed: u64) -> u32 {
    u32::try_from(packed & u64::from(u32::MAX)).expect("32 bits are left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_older_files_do_not_have_is_missing_and_not_zero() {
        assert_eq!(
            from_slot(FIRST_ADDED, EMPTY[FIRST_ADDED]),
            Err(Missing::Unsupported)
        );
        for slot in [FIRST_ADDED - 1, FIRST_ADDED] {
            for reading in [
                Ok(0),
                Ok(7),
                Err(Missing::Unsupported),
                Err(Missing::Failed),
            ] {
                assert_eq!(from_slot(slot, to_slot(slot, reading)), reading);
            }
        }
    }

    #[test]
    fn no_slot_is_used_twice() {
        let mut used = vec![
            INDEX,
            NAME,
            PLACE,
            INSTANCES,
            PARENT,
            GPU_INSTANCE,
            COMPUTE_INSTANCE,
            SLICE,
        ];
        used.extend(READINGS.iter().map(|reading| reading.slot));
        let count = used.len();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), count);
        assert!(used.last().is_some_and(|last| *last < SLOTS));
    }
}
