//! The report as JSON: `gua.report.v1`. Keys carry their units; numbers have up to six decimals; what nobody measured is
//! null. `docs/report.md` lists the keys.

use gua_model::report::{Covered, Hold, Note, Now, Sums};
use gua_model::{CalendarUnit, Micros, RollUp, State};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{By, Page, kilowatthours, table, words};
use crate::table::rounded;

/// The name of this form. A change that breaks readers gets the next number.
pub const SCHEMA: &str = "gua.report.v1";

/// The whole report; pretty, with a newline at its end.
#[must_use]
pub fn json(page: &Page<'_>) -> String {
    let mut text =
        serde_json::to_string_pretty(&value(page)).expect("a value of strings and numbers is JSON");
    text.push('\n');
    text
}

fn value(page: &Page<'_>) -> Value {
    let report = page.report;
    let by = page.by.map(|by| table(report, by).json());
    let mut value = json!({
        "schema": SCHEMA,
        "gua_version": page.version,
        "made_at": stamp(report.made),
        "time_zone": page.zone_name(),
        "host": report.host.as_ref().map(|host| json!({
            "name": host.name,
            "environment": host.environment,
            "driver_version": host.driver,
        })),
        "window": { "from": stamp(report.window.from()), "to": stamp(report.window.to()) },
        "thresholds": {
            "active_util_percent": report.thresholds.active_util.get(),
            "held_mb": report.thresholds.held_mb,
            "count_graphics": report.thresholds.count_graphics == gua_model::CountGraphics::Yes,
        },
        "user": report.person,
        "samples": match report.person {
            Some(_) => report.all.held.samples(),
            None => report.all.samples(),
        },
        "totals": sums(&report.all),
        "equivalent_gpus": {
            "idle_held": report.person.is_none().then(|| rounded(report.equivalent(RollUp::IdleHeld))),
            "truly_idle": report.person.is_none().then(|| rounded(report.equivalent(RollUp::TrulyIdle))),
        },
        "coverage": covered(&report.coverage),
        "gpus": table(report, By::Gpu).json(),
        "users": table(report, By::User).json(),
        "states": report.person.is_none().then(|| table(report, By::State).json()),
        "slots": {
            "unit": match report.unit {
                CalendarUnit::Hour => "hour",
                CalendarUnit::Day => "day",
                CalendarUnit::Week => "week",
                CalendarUnit::Month => "month",
            },
            "rows": report.slots.iter().map(|slot| {
                let mut row = sums(&slot.sums);
                row["from"] = json!(stamp(slot.period.from()));
                row["to"] = json!(stamp(slot.period.to()));
                row["gap_hours"] = json!(rounded(slot.gap.hours()));
                row
            }).collect::<Vec<_>>(),
        },
        "heatmap": {
            "weekdays": ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
            (if report.person.is_some() { "held_share" } else { "active_share" }): report.heat.cells.iter().map(|day| {
                day.iter().map(|cell| cell.share().map(rounded)).collect::<Vec<_>>()
            }).collect::<Vec<_>>(),
        },
        "holders": report.holders.iter().map(|it| hold(page, it)).collect::<Vec<_>>(),
        "past_waste_count": report.past_count,
        "past_waste": report.past.iter().map(|it| hold(page, it)).collect::<Vec<_>>(),
        "now": report.now.as_ref().map(now),
        "notes": report.notes.iter().map(|note| json!({
            "kind": kind(note),
            "text": words::note(page, note),
        })).collect::<Vec<_>>(),
    });
    if let Some(refused) = &report.refused {
        value["refused"] = json!({
            "requests": refused.requests,
            "in_the_way": refused.in_the_way.iter().map(|row| json!({
                "holder": row.holder,
                "gpu_uuid": row.gpu.as_str(),
                "gpu_index": row.index,
                "asker": row.asker,
                "times": row.times,
                "waited_seconds": row.waited.as_secs(),
            })).collect::<Vec<_>>(),
        });
    }
    if let (Some(by), Some(rows)) = (page.by, by) {
        value["by"] = json!({ "what": name(by), "rows": rows });
    }
    value
}

fn stamp(at: Timestamp) -> String {
    at.to_string()
}

fn hours(time: Micros) -> f64 {
    rounded(time.hours())
}

fn sums(sums: &Sums) -> Value {
    let share = |class| sums.share(class).map(rounded);
    let own = sums.observed() > Micros(0);
    json!({
        "active_hours": rounded(sums.hours(RollUp::Active)),
        "idle_held_hours": rounded(sums.hours(RollUp::IdleHeld)),
        "truly_idle_hours": rounded(sums.hours(RollUp::TrulyIdle)),
        "held_unknown_hours": rounded(sums.unknown_hours()),
        "active_share": share(RollUp::Active),
        "idle_held_share": share(RollUp::IdleHeld),
        "truly_idle_share": share(RollUp::TrulyIdle),
        "held_hours": rounded(sums.held.hours()),
        "charged_hours": own.then(|| hours(sums.held.own.charged)),
        "util_mean_percent": sums.util().map(rounded),
        "energy_kwh": sums.counted_energy().map(|energy| rounded(kilowatthours(energy))),
        "mig_parent_energy_kwh": (sums.set_aside_energy.0 > 0).then(|| rounded(kilowatthours(sums.set_aside_energy))),
        "energy_known_hours": hours(sums.energy_known),
    })
}

fn covered(covered: &Covered) -> Value {
    json!({
        "capacity_hours": hours(covered.capacity),
        "observed_hours": hours(covered.observed),
        "gap_hours": hours(covered.gap),
        "observed_share": covered.share().map(rounded),
        "driver_samples_hours": hours(covered.buffered),
        "old_overlap_hours": hours(covered.overlap),
        "gaps": covered.gaps.iter().map(|gap| json!({
            "reason": if gap.late { "late-ticks" } else { gap.reason.as_str() },
            "from": stamp(gap.period.from()),
            "to": stamp(gap.period.to()),
            "gpus": gap.cards,
            "hours": hours(gap.micros),
            "detail": gap.detail,
        })).collect::<Vec<_>>(),
    })
}

fn hold(page: &Page<'_>, hold: &Hold) -> Value {
    let commands = words::commands(page, hold);
    json!({
        "gpu_uuid": hold.gpu.as_str(),
        "gpu_index": hold.index,
        "user": hold.owner,
        "user_by_login": hold.by_login,
        "process": hold.process,
        "workload": hold.workload,
        "pid": hold.pid.map(|pid| pid.0),
        "from": stamp(hold.period.from()),
        "to": stamp(hold.whole().to()),
        "held_hours": hours(hold.whole().micros()),
        "idle_held_hours": hold.idle_held.map(hours),
        "util_mean_percent": hold.util.map(|(util, _)| rounded(util)),
        "util_of": hold.util.map(|(_, source)| match source {
            gua_model::UtilSource::Process => "process",
            gua_model::UtilSource::Card => "gpu",
        }),
        "peak_memory_bytes": hold.peak_memory.map(|memory| memory.0),
        "samples": hold.samples,
        "shared": hold.shared,
        "current": hold.current,
        "look": commands.as_ref().map(|(look, _)| look),
        "stop": commands.as_ref().map(|(_, stop)| stop),
    })
}

fn now(now: &Now) -> Value {
    json!({
        "at": stamp(now.at),
        "gpus": now.cards.iter().map(|card| json!({
            "gpu_uuid": card.gpu.as_str(),
            "gpu_index": card.index,
            "gpu_name": card.name,
            "state": card.state.as_str(),
            "free": card.state == State::TrulyIdle,
            "util_percent": card.util,
            "memory_used_bytes": card.memory_used.map(|memory| memory.0),
            "memory_total_bytes": card.memory_total.map(|memory| memory.0),
            "users": card.owners,
            "process": card.process,
            "held_since": card.held_since.map(stamp),
        })).collect::<Vec<_>>(),
    })
}

fn kind(note: &Note) -> &'static str {
    match note {
        Note::Widened { .. } => "widened",
        Note::Damaged { .. } => "damaged-ticks",
        Note::Overlap { .. } => "old-ticks-overlap",
        Note::Mixed => "mixed",
        Note::OldLeftOut { .. } => "old-rows-left-out",
        Note::SessionsByFile => "sessions-by-file",
        Note::GraphicsLeftOut => "graphics-left-out",
    }
}

fn name(by: By) -> &'static str {
    match by {
        By::User => "user",
        By::Gpu => "gpu",
        By::Day => "day",
        By::Hour => "hour",
        By::Week => "week",
        By::Month => "month",
        By::State => "state",
    }
}
