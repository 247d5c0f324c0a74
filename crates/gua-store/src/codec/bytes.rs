//! Encoding of frames as bytes. The first byte is the number of the format:
//!
//! `form, flags, [chain], time, body, checksum`; numbers are encoded as in `wire`. A key tick is the difference to an
//! empty frame. The checksum is seeded with the one of the previous tick, so that a difference is never applied to the
//! wrong base.

use gua_model::Missing;
use gua_model::sample::ProcessKind;

use super::Damage;
use super::frame::{Frame, GpuFrame, ProblemFrame, ProcessFrame};
use super::slots::{SLOTS, Slot, expected};
use super::window;
use super::wire::{Input, Wire, code_of, coded, unzigzag, zigzag};

const FORM: u8 = 1;

const KEY: u8 = 1;
const CHAIN: u8 = 1 << 1;
const INTERVAL: u8 = 1 << 2;
const HOST: u8 = 1 << 3;
const GPUS: u8 = 1 << 4;
const PROBLEMS: u8 = 1 << 5;

const WINDOW_BIT: usize = 0;
const VALUES_BIT: usize = 1;
const FIRST_SLOT: usize = 2;
/// Bit of the shape. It follows the slots of the first release.
const SHAPE_BIT: usize = FIRST_SLOT + 34;
/// Number of bits of a mask. A mask is a 64-bit number, so there can be 61 slots.
const BITS: usize = slot_bit(SLOTS);

/// Returns the bit of a slot. Slots that are added after the first release have bits after that of the shape, so that
/// files without them are read as before.
const fn slot_bit(slot: usize) -> usize {
    let bit = FIRST_SLOT + slot;
    if bit < SHAPE_BIT { bit } else { bit + 1 }
}

/// Codes of the file format: the place in these tables.
pub(crate) const REASONS: [Missing; 4] = [
    Missing::Unsupported,
    Missing::Denied,
    Missing::Gone,
    Missing::Failed,
];
pub(crate) const KINDS: [ProcessKind; 3] = [
    ProcessKind::Compute,
    ProcessKind::Graphics,
    ProcessKind::Both,
];

type Done = Result<(), Damage>;

/// End of a chain: the base of the next difference.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) frame: Frame,
    pub(crate) checksum: u16,
}

/// Returns the bytes of `frame` as a difference to `before` (or as a key tick), and the link for the next one.
pub(crate) fn encode(mut frame: Frame, before: Option<&Link>, chain: u32) -> (Vec<u8>, Link) {
    let mut out = Vec::with_capacity(512);
    let previous = before.map(|link| &link.frame);
    let mut head = Head {
        flags: flags(&frame, previous, chain),
        chain,
    };
    let written = head
        .pass(&mut out)
        .and_then(|()| pass_frame(&mut out, head.flags, &mut frame, previous));
    written.expect("a writer accepts every frame");
    let checksum = checksum(before.map_or(0, |link| link.checksum), &out);
    out.extend(checksum.to_le_bytes());
    (out, Link { frame, checksum })
}

/// Returns the number of the chain that a stored tick belongs to, and whether it begins one.
pub(crate) fn chain(body: &[u8]) -> Result<(u32, bool), Damage> {
    let mut head = Head::default();
    head.pass(&mut Input(body))?;
    Ok((head.chain, head.flags & KEY != 0))
}

/// Decodes a stored tick. `before` is the link of the tick before it, which a key tick does not need.
pub(crate) fn decode(body: &[u8], before: Option<&Link>) -> Result<Link, Damage> {
    let (_, is_key) = chain(body)?;
    let before = match is_key {
        true => None,
        false => Some(before.ok_or(Damage::Chain)?),
    };
    let (content, stored) = body.split_last_chunk::<2>().ok_or(Damage::Short)?;
    let checksum = checksum(before.map_or(0, |link| link.checksum), content);
    if checksum != u16::from_le_bytes(*stored) {
        return Err(Damage::Checksum);
    }
    let frame = decode_unchecked(content, before.map(|link| &link.frame))?;
    Ok(Link { frame, checksum })
}

/// Decodes the content of a tick without its checksum. It accepts any bytes.
pub(crate) fn decode_unchecked(content: &[u8], before: Option<&Frame>) -> Result<Frame, Damage> {
    let mut input = Input(content);
    let mut head = Head::default();
    head.pass(&mut input)?;
    let before = match head.flags & KEY {
        0 => Some(before.ok_or(Damage::Chain)?),
        _ => None,
    };
    let mut frame = before.cloned().unwrap_or_else(Frame::empty);
    pass_frame(&mut input, head.flags, &mut frame, before)?;
    input.end()?;
    Ok(frame)
}

/// Header before the content: flags of the parts that follow, and the chain (0 if it is not stored).
#[derive(Default)]
struct Head {
    flags: u8,
    chain: u32,
}

impl Head {
    fn pass(&mut self, wire: &mut impl Wire) -> Done {
        let mut form = FORM;
        wire.byte(&mut form)?;
        if form != FORM {
            return Err(Damage::Form(form));
        }
        wire.byte(&mut self.flags)?;
        match self.flags & CHAIN {
            0 => Ok(()),
            _ => wire.number(&mut self.chain),
        }
    }
}

fn flags(frame: &Frame, before: Option<&Frame>, chain: u32) -> u8 {
    let bit = |changed: bool, flag: u8| if changed { flag } else { 0 };
    let chain = bit(chain != 0, CHAIN);
    let Some(before) = before else {
        return KEY | chain | INTERVAL | HOST | GPUS | PROBLEMS;
    };
    let gpus = frame.gpus.iter().map(|gpu| gpu.id);
    let same_gpus = gpus.eq(before.gpus.iter().map(|gpu| gpu.id));
    let host = |frame: &Frame| (frame.boot, frame.driver, frame.cuda);
    chain
        | bit(frame.interval != before.interval, INTERVAL)
        | bit(host(frame) != host(before), HOST)
        | bit(!same_gpus, GPUS)
        | bit(frame.problems != before.problems, PROBLEMS)
}

/// Passes a frame; a reader begins with the frame before it, or an empty one.
fn pass_frame<W: Wire>(wire: &mut W, flags: u8, frame: &mut Frame, before: Option<&Frame>) -> Done {
    pass_times(wire, frame, before)?;
    if flags & INTERVAL != 0 {
        wire.wide(&mut frame.interval)?;
    }
    if flags & HOST != 0 {
        pass_host(wire, frame)?;
    }
    if flags & GPUS != 0 {
        wire.list(
            &mut frame.gpus,
            || GpuFrame::empty(0),
            |wire, gpu| {
                wire.number(&mut gpu.id)?;
                let nothing = GpuFrame::empty(gpu.id);
                pass_gpu(wire, gpu, &nothing, 0)
            },
        )?;
    } else if let Some(before) = before {
        let passed = frame.since_boot.wrapping_sub(before.since_boot);
        let elapsed_ms = u64::try_from(passed / 1_000_000).unwrap_or(0);
        for (gpu, before) in frame.gpus.iter_mut().zip(&before.gpus) {
            pass_gpu(wire, gpu, before, elapsed_ms)?;
        }
    }
    match flags & PROBLEMS {
        0 => Ok(()),
        _ => wire.list(&mut frame.problems, ProblemFrame::empty, pass_problem),
    }
}

/// Passes both clocks. They run in parallel, so the difference of their progress is stored.
fn pass_times(wire: &mut impl Wire, frame: &mut Frame, before: Option<&Frame>) -> Done {
    let (at, since_boot) = before.map_or((0, 0), |before| (before.at, before.since_boot));
    let mut passed = frame.at.wrapping_sub(at);
    wire.signed(&mut passed)?;
    let parallel = if before.is_some() { passed } else { 0 };
    let awake = frame.since_boot.wrapping_sub(since_boot).cast_signed();
    let mut apart = awake.wrapping_sub(parallel);
    wire.signed(&mut apart)?;
    frame.at = at.wrapping_add(passed);
    let awake = apart.wrapping_add(parallel).cast_unsigned();
    frame.since_boot = since_boot.wrapping_add(awake);
    Ok(())
}

fn pass_host(wire: &mut impl Wire, frame: &mut Frame) -> Done {
    let mut code = match &frame.boot {
        Ok(_) => 0,
        Err(why) => 1 + code_of(&REASONS, why),
    };
    wire.byte(&mut code)?;
    frame.boot = match code.checked_sub(1) {
        None => {
            let mut boot = frame.boot.unwrap_or(0).to_le_bytes();
            wire.bytes(&mut boot)?;
            Ok(u128::from_le_bytes(boot))
        }
        Some(why) => Err(coded(&REASONS, why, "reason")?),
    };
    pass_slot(wire, &mut frame.driver, Ok(0))?;
    pass_slot(wire, &mut frame.cuda, Ok(0))
}

/// Bits of what changed since `before`.
fn changes(gpu: &GpuFrame, before: &GpuFrame) -> u64 {
    let shapes = gpu.processes.iter().map(ProcessFrame::shape);
    let same_shape = shapes.eq(before.processes.iter().map(ProcessFrame::shape));
    let mut mask = 0;
    let mut mark = |changed: bool, bit: usize| mask |= u64::from(changed) << bit;
    mark(gpu.window != before.window, WINDOW_BIT);
    mark(same_shape && gpu.processes != before.processes, VALUES_BIT);
    mark(!same_shape, SHAPE_BIT);
    for (slot, (now, then)) in gpu.slots.iter().zip(&before.slots).enumerate() {
        mark(now != then, slot_bit(slot));
    }
    mask
}

/// Passes a GPU as the difference to `before`, which a reader begins with.
fn pass_gpu<W: Wire>(wire: &mut W, gpu: &mut GpuFrame, before: &GpuFrame, elapsed_ms: u64) -> Done {
    let mut mask = if W::READS { 0 } else { changes(gpu, before) };
    wire.number(&mut mask)?;
    let is_marked = |bit: usize| mask & (1 << bit) != 0;
    if mask >> BITS != 0 || (is_marked(SHAPE_BIT) && is_marked(VALUES_BIT)) {
        return Err(Damage::Value("mask of readings"));
    }
    for (slot, then) in before.slots.iter().enumerate() {
        if is_marked(slot_bit(slot)) {
            let expected = expected(slot, &gpu.slots, *then, elapsed_ms);
            pass_slot(wire, &mut gpu.slots[slot], expected)?;
        }
    }
    if is_marked(WINDOW_BIT) {
        window::pass(wire, &mut gpu.window, before.window.unwrap_or_default())?;
    }
    if is_marked(SHAPE_BIT) {
        wire.list(&mut gpu.processes, ProcessFrame::empty, pass_process)?;
    } else if is_marked(VALUES_BIT) {
        pass_values(wire, &mut gpu.processes, &before.processes)?;
    }
    Ok(())
}

fn pass_process<W: Wire>(wire: &mut W, process: &mut ProcessFrame) -> Done {
    wire.one_of(&KINDS, &mut process.kind, "kind of process")?;
    wire.number(&mut process.pid)?;
    for slot in [&mut process.who, &mut process.memory, &mut process.sm_util] {
        pass_slot(wire, slot, Ok(0))?;
    }
    Ok(())
}

/// Two bits per process mark changes, four processes per byte; the changes follow.
fn pass_values<W: Wire>(
    wire: &mut W,
    processes: &mut [ProcessFrame],
    before: &[ProcessFrame],
) -> Done {
    for (now, before) in processes.chunks_mut(4).zip(before.chunks(4)) {
        let mut mask = 0_u8;
        for (place, (now, before)) in now.iter().zip(before).enumerate() {
            mask |= u8::from(now.memory != before.memory) << (2 * place);
            mask |= u8::from(now.sm_util != before.sm_util) << (2 * place + 1);
        }
        wire.byte(&mut mask)?;
        for (place, (now, before)) in now.iter_mut().zip(before).enumerate() {
            if mask & (1 << (2 * place)) != 0 {
                pass_slot(wire, &mut now.memory, before.memory)?;
            }
            if mask & (2 << (2 * place)) != 0 {
                pass_slot(wire, &mut now.sm_util, before.sm_util)?;
            }
        }
    }
    Ok(())
}

fn pass_problem<W: Wire>(wire: &mut W, problem: &mut ProblemFrame) -> Done {
    wire.one_of(&REASONS, &mut problem.why, "reason")?;
    wire.option(&mut problem.gpu)?;
    wire.option(&mut problem.index)?;
    wire.option(&mut problem.code)?;
    wire.number(&mut problem.call)?;
    wire.number(&mut problem.text)
}

/// 0 to 3 are the reasons; from 4 on follows the difference to the expected value (to zero if that is missing).
fn pass_slot<W: Wire>(wire: &mut W, slot: &mut Slot, expected: Slot) -> Done {
    let expected = expected.unwrap_or(0);
    let mut code = match slot {
        Err(why) => code_of(&REASONS, why).into(),
        Ok(value) => zigzag(value.wrapping_sub(expected).cast_signed().into()) + 4,
    };
    wire.wide(&mut code)?;
    if !W::READS {
        return Ok(());
    }
    *slot = match u8::try_from(code) {
        Ok(why @ 0..=3) => Err(coded(&REASONS, why, "reason")?),
        _ => {
            let change = i64::try_from(unzigzag(code - 4));
            let change = change.map_err(|_| Damage::Value("difference"))?;
            Ok(expected.wrapping_add(change.cast_unsigned()))
        }
    };
    Ok(())
}

/// CRC-16 (polynomial 0x1021), seeded with the checksum of the tick before.
fn checksum(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(!seed, |crc, byte| {
        let [high, low] = crc.to_be_bytes();
        REMAINDERS[usize::from(high ^ byte)] ^ (u16::from(low) << 8)
    })
}

const REMAINDERS: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the loop ends at 256")]
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
