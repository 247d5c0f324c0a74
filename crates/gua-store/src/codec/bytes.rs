//! Encoding of frames as bytes. The first byte is the number of the format:
//!
//! `form, flags, [chain], time, body, checksum`; numbers are encoded as in `varint`. A key tick is the difference to an
//! empty frame. The checksum is seeded with the one of the previous tick, so that a difference is never applied to the
//! wrong base.

use gua_model::sample::ProcessKind;
use gua_model::{Missing, Reading};

use super::Damage;
use super::frame::{CardFrame, Frame, ProblemFrame, ProcessFrame};
use super::slots::{SLOTS, Slot, expected};
use super::varint::{Input, fold, put};
use super::window::WindowFrame;

const FORM: u8 = 1;

const KEY: u8 = 1;
const CHAIN: u8 = 1 << 1;
const INTERVAL: u8 = 1 << 2;
const HOST: u8 = 1 << 3;
const CARDS: u8 = 1 << 4;
const PROBLEMS: u8 = 1 << 5;

const WINDOW_BIT: usize = 0;
const VALUES_BIT: usize = 1;
const FIRST_SLOT: usize = 2;
const SHAPE_BIT: usize = FIRST_SLOT + SLOTS;

/// End of a chain: the base of the next difference.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) frame: Frame,
    pub(crate) checksum: u16,
}

/// Returns the bytes of `frame` as a difference to `before` (or as a key tick), and the link for the next one.
pub(crate) fn encode(frame: Frame, before: Option<&Link>, chain: u32) -> (Vec<u8>, Link) {
    let mut out = Vec::with_capacity(512);
    let previous = before.map(|link| &link.frame);
    let flags = flags(&frame, previous, chain);
    out.extend([FORM, flags]);
    if flags & CHAIN != 0 {
        put(&mut out, chain.into());
    }
    put_head(&frame, previous, flags, &mut out);
    let empty = [];
    let cards_before = previous.map_or(&empty[..], |frame| &frame.cards);
    if flags & CARDS != 0 {
        put(&mut out, frame.cards.len() as u128);
        for card in &frame.cards {
            put(&mut out, card.card.into());
            put_card(card, &CardFrame::empty(card.card), 0, &mut out);
        }
    } else {
        let elapsed = elapsed_ms(&frame, previous);
        for (card, before) in frame.cards.iter().zip(cards_before) {
            put_card(card, before, elapsed, &mut out);
        }
    }
    if flags & PROBLEMS != 0 {
        put_problems(&frame.problems, &mut out);
    }
    let checksum = checksum(before.map_or(0, |link| link.checksum), &out);
    out.extend(checksum.to_le_bytes());
    (out, Link { frame, checksum })
}

/// Returns the number of the chain that a stored tick belongs to, and whether it begins one.
pub(crate) fn chain(body: &[u8]) -> Result<(u32, bool), Damage> {
    let mut input = Input::new(body);
    let flags = form_and_flags(&mut input)?;
    let chain = if flags & CHAIN != 0 {
        input.small()?
    } else {
        0
    };
    Ok((chain, flags & KEY != 0))
}

/// Decodes a stored tick. `before` is the link of the tick before it, which a key tick does not need.
pub(crate) fn decode(body: &[u8], before: Option<&Link>) -> Result<Link, Damage> {
    let (_, is_key) = chain(body)?;
    let before = if is_key {
        None
    } else {
        Some(before.ok_or(Damage::Chain)?)
    };
    let (content, stored) = body.split_last_chunk::<2>().ok_or(Damage::Short)?;
    let expected = checksum(before.map_or(0, |link| link.checksum), content);
    if expected != u16::from_le_bytes(*stored) {
        return Err(Damage::Checksum);
    }
    let (frame, _) = decode_unchecked(content, before.map(|link| &link.frame))?;
    Ok(Link {
        frame,
        checksum: expected,
    })
}

/// Decodes the content of a tick without its checksum. It accepts any bytes.
pub(crate) fn decode_unchecked(
    content: &[u8],
    before: Option<&Frame>,
) -> Result<(Frame, u32), Damage> {
    let mut input = Input::new(content);
    let flags = form_and_flags(&mut input)?;
    let chain = if flags & CHAIN != 0 {
        input.small()?
    } else {
        0
    };
    let before = if flags & KEY != 0 {
        None
    } else {
        Some(before.ok_or(Damage::Chain)?)
    };
    let mut frame = get_head(before, flags, &mut input)?;
    if flags & CARDS != 0 {
        let count = input.count()?;
        for _ in 0..count {
            let card = input.number()?;
            frame
                .cards
                .push(get_card(&CardFrame::empty(card), 0, &mut input)?);
        }
    } else {
        let elapsed = elapsed_ms(&frame, before);
        for card in before.map_or(&[][..], |frame| &frame.cards) {
            frame.cards.push(get_card(card, elapsed, &mut input)?);
        }
    }
    frame.problems = if flags & PROBLEMS != 0 {
        get_problems(&mut input)?
    } else {
        before.map_or_else(Vec::new, |frame| frame.problems.clone())
    };
    input.end()?;
    Ok((frame, chain))
}

fn form_and_flags(input: &mut Input<'_>) -> Result<u8, Damage> {
    match input.byte()? {
        FORM => input.byte(),
        other => Err(Damage::Form(other)),
    }
}

fn flags(frame: &Frame, before: Option<&Frame>, chain: u32) -> u8 {
    let chain = if chain == 0 { 0 } else { CHAIN };
    let Some(before) = before else {
        return KEY | chain | INTERVAL | HOST | CARDS | PROBLEMS;
    };
    let bit = |changed: bool, flag: u8| if changed { flag } else { 0 };
    let cards = frame.cards.iter().map(|card| card.card);
    let same_cards = cards.eq(before.cards.iter().map(|card| card.card));
    let host = |frame: &Frame| (frame.boot, frame.driver, frame.cuda);
    chain
        | bit(frame.interval != before.interval, INTERVAL)
        | bit(host(frame) != host(before), HOST)
        | bit(!same_cards, CARDS)
        | bit(frame.problems != before.problems, PROBLEMS)
}

fn put_head(frame: &Frame, before: Option<&Frame>, flags: u8, out: &mut Vec<u8>) {
    let (at, since_boot) = before.map_or((0, 0), |before| (before.at, before.since_boot));
    let passed = frame.at.wrapping_sub(at);
    put(out, fold(passed));
    // The two clocks run in parallel; the difference of their progress is stored.
    let awake = frame.since_boot.wrapping_sub(since_boot).cast_signed();
    let apart = if before.is_some() {
        awake.wrapping_sub(passed)
    } else {
        awake
    };
    put(out, fold(apart));
    if flags & INTERVAL != 0 {
        put(out, frame.interval);
    }
    if flags & HOST != 0 {
        match frame.boot {
            Ok(boot) => {
                out.push(0);
                out.extend(boot.to_le_bytes());
            }
            Err(why) => out.push(1 + missing(why)),
        }
        put_slot(frame.driver, Ok(0), out);
        put_slot(frame.cuda, Ok(0), out);
    }
}

fn get_head(before: Option<&Frame>, flags: u8, input: &mut Input<'_>) -> Result<Frame, Damage> {
    let passed = input.signed()?;
    let apart = input.signed()?;
    let (at, since_boot) = match before {
        None => (passed, apart.cast_unsigned()),
        Some(before) => (
            before.at.wrapping_add(passed),
            before
                .since_boot
                .wrapping_add(apart.wrapping_add(passed).cast_unsigned()),
        ),
    };
    let interval = if flags & INTERVAL != 0 {
        input.wide()?
    } else {
        before.map_or(0, |frame| frame.interval)
    };
    let (boot, driver, cuda) = if flags & HOST != 0 {
        let boot = match input.byte()? {
            0 => Ok(u128::from_le_bytes(input.array()?)),
            why => Err(to_missing(why - 1)?),
        };
        (boot, get_slot(Ok(0), input)?, get_slot(Ok(0), input)?)
    } else {
        before.map_or((Err(Missing::Failed), Ok(0), Ok(0)), |frame| {
            (frame.boot, frame.driver, frame.cuda)
        })
    };
    Ok(Frame {
        at,
        since_boot,
        interval,
        boot,
        driver,
        cuda,
        cards: Vec::new(),
        problems: Vec::new(),
    })
}

/// Returns the time between two ticks by the clock that never jumps.
fn elapsed_ms(frame: &Frame, before: Option<&Frame>) -> u64 {
    let passed = before.map_or(0, |before| frame.since_boot.wrapping_sub(before.since_boot));
    u64::try_from(passed / 1_000_000).unwrap_or(0)
}

fn put_card(card: &CardFrame, before: &CardFrame, elapsed_ms: u64, out: &mut Vec<u8>) {
    let same_shape = card
        .processes
        .iter()
        .map(ProcessFrame::shape)
        .eq(before.processes.iter().map(ProcessFrame::shape));
    let mut mask = 0u64;
    let mut mark = |changed: bool, bit: usize| mask |= u64::from(changed) << bit;
    mark(card.window != before.window, WINDOW_BIT);
    mark(same_shape && card.processes != before.processes, VALUES_BIT);
    mark(!same_shape, SHAPE_BIT);
    for (slot, (now, then)) in card.slots.iter().zip(&before.slots).enumerate() {
        mark(now != then, FIRST_SLOT + slot);
    }
    put(out, mask.into());
    for (slot, (now, then)) in card.slots.iter().zip(&before.slots).enumerate() {
        if now != then {
            put_slot(*now, expected(slot, &card.slots, *then, elapsed_ms), out);
        }
    }
    if card.window != before.window {
        match &card.window {
            Ok(window) => window.put(&before.window.unwrap_or_default(), out),
            Err(why) => out.push(missing(*why)),
        }
    }
    if !same_shape {
        put(out, card.processes.len() as u128);
        for process in &card.processes {
            put_process(process, out);
        }
    } else if card.processes != before.processes {
        put_values(&card.processes, &before.processes, out);
    }
}

fn get_card(
    before: &CardFrame,
    elapsed_ms: u64,
    input: &mut Input<'_>,
) -> Result<CardFrame, Damage> {
    let mask = input.number()?;
    let is_marked = |bit: usize| mask & (1 << bit) != 0;
    if mask >> (SHAPE_BIT + 1) != 0 || (is_marked(SHAPE_BIT) && is_marked(VALUES_BIT)) {
        return Err(Damage::Value("mask of readings"));
    }
    let mut card = before.clone();
    for (slot, then) in before.slots.iter().enumerate() {
        if is_marked(FIRST_SLOT + slot) {
            let expected = expected(slot, &card.slots, *then, elapsed_ms);
            card.slots[slot] = get_slot(expected, input)?;
        }
    }
    if is_marked(WINDOW_BIT) {
        card.window = match WindowFrame::get(&before.window.unwrap_or_default(), input)? {
            Ok(window) => Ok(window),
            Err(why) => Err(to_missing(why)?),
        };
    }
    if is_marked(SHAPE_BIT) {
        let count = input.count()?;
        card.processes.clear();
        for _ in 0..count {
            card.processes.push(get_process(input)?);
        }
    } else if is_marked(VALUES_BIT) {
        get_values(&mut card.processes, input)?;
    }
    Ok(card)
}

fn put_process(process: &ProcessFrame, out: &mut Vec<u8>) {
    out.push(match process.kind {
        ProcessKind::Compute => 0,
        ProcessKind::Graphics => 1,
        ProcessKind::Both => 2,
    });
    put(out, process.pid.into());
    for slot in [process.who, process.memory, process.sm_util] {
        put_slot(slot, Ok(0), out);
    }
}

fn get_process(input: &mut Input<'_>) -> Result<ProcessFrame, Damage> {
    let kind = match input.byte()? {
        0 => ProcessKind::Compute,
        1 => ProcessKind::Graphics,
        2 => ProcessKind::Both,
        _ => return Err(Damage::Value("kind of process")),
    };
    Ok(ProcessFrame {
        kind,
        pid: input.small()?,
        who: get_slot(Ok(0), input)?,
        memory: get_slot(Ok(0), input)?,
        sm_util: get_slot(Ok(0), input)?,
    })
}

/// Two bits per process mark changes, four processes per byte; the changes follow.
fn put_values(now: &[ProcessFrame], before: &[ProcessFrame], out: &mut Vec<u8>) {
    for (now, before) in now.chunks(4).zip(before.chunks(4)) {
        let mut mask = 0u8;
        for (place, (now, before)) in now.iter().zip(before).enumerate() {
            mask |= u8::from(now.memory != before.memory) << (2 * place);
            mask |= u8::from(now.sm_util != before.sm_util) << (2 * place + 1);
        }
        out.push(mask);
        for (now, before) in now.iter().zip(before) {
            if now.memory != before.memory {
                put_slot(now.memory, before.memory, out);
            }
            if now.sm_util != before.sm_util {
                put_slot(now.sm_util, before.sm_util, out);
            }
        }
    }
}

fn get_values(processes: &mut [ProcessFrame], input: &mut Input<'_>) -> Result<(), Damage> {
    for group in processes.chunks_mut(4) {
        let mask = input.byte()?;
        for (place, process) in group.iter_mut().enumerate() {
            if mask & (1 << (2 * place)) != 0 {
                process.memory = get_slot(process.memory, input)?;
            }
            if mask & (2 << (2 * place)) != 0 {
                process.sm_util = get_slot(process.sm_util, input)?;
            }
        }
    }
    Ok(())
}

fn put_problems(problems: &[ProblemFrame], out: &mut Vec<u8>) {
    put(out, problems.len() as u128);
    for problem in problems {
        out.push(missing(problem.why));
        put_option(problem.card, out);
        put_option(problem.index.map(Into::into), out);
        put_option(problem.code.map(Into::into), out);
        put(out, problem.call.into());
        put(out, problem.text.into());
    }
}

fn get_problems(input: &mut Input<'_>) -> Result<Vec<ProblemFrame>, Damage> {
    let small = |value: Option<u64>| {
        value
            .map(u32::try_from)
            .transpose()
            .map_err(|_| Damage::Value("number"))
    };
    let count = input.count()?;
    let mut problems = Vec::new();
    for _ in 0..count {
        problems.push(ProblemFrame {
            why: to_missing(input.byte()?)?,
            card: get_option(input)?,
            index: small(get_option(input)?)?,
            code: small(get_option(input)?)?,
            call: input.number()?,
            text: input.number()?,
        });
    }
    Ok(problems)
}

fn put_option(value: Option<u64>, out: &mut Vec<u8>) {
    put(out, value.map_or(0, |value| u128::from(value) + 1));
}

fn get_option(input: &mut Input<'_>) -> Result<Option<u64>, Damage> {
    match input.wide()? {
        0 => Ok(None),
        above => u64::try_from(above - 1)
            .map(Some)
            .map_err(|_| Damage::Value("number")),
    }
}

/// 0 to 3 are the reasons; from 4 on follows the difference to the value before (to zero if it was missing).
fn put_slot(now: Slot, before: Slot, out: &mut Vec<u8>) {
    match now {
        Err(why) => out.push(missing(why)),
        Ok(value) => {
            let change = value.wrapping_sub(before.unwrap_or(0)).cast_signed();
            put(out, fold(change.into()) + 4);
        }
    }
}

fn get_slot(before: Slot, input: &mut Input<'_>) -> Result<Reading<u64>, Damage> {
    let code = input.wide()?;
    match u8::try_from(code) {
        Ok(why @ 0..=3) => Ok(Err(to_missing(why)?)),
        _ => {
            let change = i64::try_from(super::varint::unfold(code - 4))
                .map_err(|_| Damage::Value("difference"))?;
            Ok(Ok(before.unwrap_or(0).wrapping_add(change.cast_unsigned())))
        }
    }
}

fn missing(why: Missing) -> u8 {
    match why {
        Missing::Unsupported => 0,
        Missing::Denied => 1,
        Missing::Gone => 2,
        Missing::Failed => 3,
    }
}

fn to_missing(code: u8) -> Result<Missing, Damage> {
    match code {
        0 => Ok(Missing::Unsupported),
        1 => Ok(Missing::Denied),
        2 => Ok(Missing::Gone),
        3 => Ok(Missing::Failed),
        _ => Err(Damage::Value("reason")),
    }
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
