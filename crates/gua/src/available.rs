//! `gua available`: the cards that are free, for a script; and for a person, who holds the others.

use std::process::ExitCode;

use gua_model::pick::{
    FreeRule, LastUse, Obstacle, Order, Wish, against, free_memory, obstacle, sort,
};
use gua_model::{Gpu, Place, Sample, classify};
use gua_probe::host::time::ticks_per_second;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::cli::{AvailableArgs, RuleName};
use crate::config::Loaded;
use crate::failure::Exit;
use crate::list::words::rough;
use crate::look::people;
use crate::look::recorded::Recorded;
use crate::{driver, output};

/// The version of the JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Holders beyond this are counted and not named.
const NAMED: usize = 4;

pub fn run(args: &AvailableArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let settings = &loaded.settings;
    let sample = driver::sample(&mut driver::reader(settings), settings)?;
    let wish = wish(args, loaded, &sample);
    let (mut free, others) = divide(&sample, &wish, &last_use(&wish, loaded, &sample));
    order(&mut free, args.order.as_ref());
    let has_no_number = |gpu: &&Gpu| matches!(gpu.place, Place::Instance { .. });
    let instances = free.iter().filter(|gpu| has_no_number(gpu)).count();
    if !args.uuid {
        free.retain(|gpu| !has_no_number(gpu));
    }
    let wanted = args
        .count
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let is_enough = !free.is_empty() && wanted.is_none_or(|wanted| free.len() >= wanted);
    let found = free.len();
    match wanted.or(args.limit.filter(|limit| *limit > 0)) {
        _ if !is_enough => free.clear(),
        Some(most) => free.truncate(most),
        None => {}
    }
    if args.json {
        let shown = shown_json(&sample, args, &free, &others, &wish);
        let text = serde_json::to_string_pretty(&shown)?;
        output::raw(format!("{text}\n").as_bytes())?;
    } else if is_enough || args.rule == RuleName::Nvgpu {
        let name = |gpu: &&Gpu| match args.uuid {
            true => gpu.uuid.to_string(),
            false => gpu.index.to_string(),
        };
        let names: Vec<String> = free.iter().map(name).collect();
        output::data(&format!("{}\n", names.join(",")))?;
    }
    if args.rule == RuleName::Nvgpu {
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet {
        let mut told = told(&sample, &others, &wish);
        if instances > 0 && !args.uuid && !is_enough {
            told.push_str(&format!(
                "gua available: {instances} MIG instances are free; --uuid names them\n"
            ));
        }
        if !is_enough {
            told.push_str(&shortage(found, wanted));
        }
        output::talk(&told);
    }
    Ok(match is_enough {
        true => ExitCode::SUCCESS,
        false => Exit::Nothing.into(),
    })
}

fn shortage(found: usize, wanted: Option<usize>) -> String {
    match wanted {
        Some(wanted) if found > 0 => format!("gua available: {found} free, {wanted} wanted\n"),
        _ => "gua available: no card is free\n".to_owned(),
    }
}

fn wish(args: &AvailableArgs, loaded: &Loaded, sample: &Sample) -> Wish {
    let free_for = SignedDuration::try_from(args.free_for).unwrap_or(SignedDuration::MAX);
    Wish {
        rule: match args.rule {
            RuleName::Gua => FreeRule::Unheld,
            RuleName::Nvgpu => FreeRule::MemoryAlone,
        },
        thresholds: loaded.settings.thresholds(),
        max_used: args.max_used_percent,
        min_free: args.min_free_memory,
        max_util: args.max_util,
        models: args.gpu_model.clone(),
        as_free: args.account_as_free.clone(),
        idle_since: sample
            .at
            .checked_sub(free_for)
            .ok()
            .filter(|_| !free_for.is_zero()),
    }
}

/// What a running daemon saw lately. Without one, or where its history cannot be read, the look of this moment decides.
fn last_use(wish: &Wish, loaded: &Loaded, sample: &Sample) -> LastUse {
    let Some(from) = wish.idle_since.filter(|_| wish.rule == FreeRule::Unheld) else {
        return LastUse::new();
    };
    let Some(recorded) = Recorded::open(loaded) else {
        return LastUse::new();
    };
    let used = recorded.last_use(from, sample.at, &wish.as_free);
    used.unwrap_or_else(|error| {
        output::talk(&format!(
            "gua available: the history cannot be asked: {error}\n"
        ));
        LastUse::new()
    })
}

/// The free cards, and the others with what speaks against them.
pub(crate) fn divide<'a>(
    sample: &'a Sample,
    wish: &Wish,
    last_use: &LastUse,
) -> (Vec<&'a Gpu>, Vec<(&'a Gpu, Obstacle)>) {
    let mut free = Vec::new();
    let mut others = Vec::new();
    for gpu in &sample.gpus {
        match obstacle(gpu, wish, last_use) {
            None => free.push(gpu),
            Some(why) => others.push((gpu, why)),
        }
    }
    (free, others)
}

/// Whole cards before instances, since no program can use both at once; then by the wished order.
fn order(free: &mut [&Gpu], order: Option<&Order>) {
    if let Some(order) = order {
        sort(free, order, |gpu| gpu);
    }
    free.sort_by_key(|gpu| matches!(gpu.place, Place::Instance { .. }));
}

/// One line a card that is not free.
fn told(sample: &Sample, others: &[(&Gpu, Obstacle)], wish: &Wish) -> String {
    let mut text = String::new();
    for (gpu, why) in others {
        let card = match &gpu.place {
            Place::Instance { .. } => format!("gpu {} instance {}", gpu.index, gpu.uuid),
            Place::Whole | Place::Parent { .. } => format!("gpu {}", gpu.index),
        };
        let line = match why {
            Obstacle::OtherModel | Obstacle::Divided => continue,
            Obstacle::Held => format!("{card} is held by {}", holders(gpu, sample, wish)),
            Obstacle::UsedAt(at) => {
                let age = sample.at.duration_since(*at).as_secs();
                format!("{card} was in use {age} s ago")
            }
            other => format!("{card} is not free: {other}"),
        };
        text.push_str(&format!("gua available: {line}\n"));
    }
    for problem in sample
        .problems
        .iter()
        .filter(|problem| problem.gpu.is_none())
    {
        text.push_str(&format!("gua available: {problem}\n"));
    }
    text
}

fn holders(gpu: &Gpu, sample: &Sample, wish: &Wish) -> String {
    let ticks = ticks_per_second();
    let mut named: Vec<String> = against(gpu, wish)
        .map(|process| {
            let identity = process.identity.as_ref().ok();
            let age = identity.and_then(|identity| people::age(identity, sample, ticks));
            let since = age.map_or_else(String::new, |age| format!(", since {}", rough(age)));
            let owner = people::owner_and_workload(process);
            format!("{owner} (pid {}{since})", process.pid)
        })
        .collect();
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!(
        "{}; {}",
        named.join(", "),
        classify(gpu, &wish.thresholds, None).state
    )
}

fn shown_json(
    sample: &Sample,
    args: &AvailableArgs,
    free: &[&Gpu],
    others: &[(&Gpu, Obstacle)],
    wish: &Wish,
) -> Value {
    let card = |gpu: &Gpu| {
        json!({
            "index": gpu.index,
            "uuid": gpu.uuid.as_str(),
            "parent_uuid": gpu.place.parent().map(|parent| parent.as_str().to_owned()),
            "name": gpu.name.as_ref().ok(),
            "memory_free_bytes": free_memory(gpu).ok().map(|bytes| bytes.0),
            "memory_total_bytes": gpu.memory_total.ok().map(|bytes| bytes.0),
            "power_milliwatts": gpu.power.ok().map(|power| power.0),
            "temperature_celsius": gpu.temperature.ok().map(|degrees| degrees.0),
            "util_percent": gpu.util.ok().map(|util| util.get()),
        })
    };
    let others: Vec<Value> = others
        .iter()
        .map(|(gpu, why)| {
            let mut shown = card(gpu);
            shown["why"] = why.to_string().into();
            shown["state"] = classify(gpu, &wish.thresholds, None).state.word().into();
            let holders =
                against(gpu, wish).map(|process| crate::list::json::holder(process, sample));
            shown["holders"] = holders.collect();
            shown
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "at": sample.at.to_string(),
        "rule": match args.rule {
            RuleName::Gua => "gua",
            RuleName::Nvgpu => "nvgpu",
        },
        "available": free.iter().map(|gpu| card(gpu)).collect::<Vec<_>>(),
        "not_available": others,
    })
}
