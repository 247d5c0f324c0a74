//! The action report in Korean, with the labels and columns that readers of gpu-usage-audit 1.7 and later know: who holds
//! a GPU without using it now, who did, and which GPUs are free.

mod boxes;
mod spell;

use std::fmt::Write as _;

use gua_model::report::{CardNow, Hold, Now, UNKNOWN};
use gua_model::table::Align;
use gua_model::text::sanitize;
use gua_model::{Bytes, Micros, RollUp, State};

use self::boxes::{BoxColumn, boxed};
use self::spell::{ago, grouped, interval, since};
use super::{By, Page, labels, table};
use crate::language::Language;

const WIDTH: usize = 74;
/// Maximum number of past holders in the list.
const PAST_ROWS: usize = 8;
/// Maximum age of the last sample of a holder that counts as present.
const STILL_THERE_SECONDS: i64 = 300;

/// The whole report, or with `--by` its head and that table.
#[must_use]
pub fn korean(page: &Page<'_>) -> String {
    let report = page.report;
    let mut out = String::new();
    head(&mut out, page);
    if observations(page) == 0 {
        out.push_str("이 구간에는 관측 데이터가 없습니다. 수집기가 실행 중인지 `gua status`로 확인해 주세요.\n");
        notes(&mut out, page);
        return out;
    }
    summary(&mut out, page);
    if let Some(by) = page.by {
        by_table(&mut out, page, by);
        notes(&mut out, page);
        return out;
    }
    to_act_on(&mut out, page);
    past_waste(&mut out, page);
    if let Some(now) = &report.now {
        all_gpus(&mut out, now);
    }
    refused_requests(&mut out, page);
    foot(&mut out, page);
    out
}

/// Number of readings in the window: one for each GPU and tick.
fn observations(page: &Page<'_>) -> u64 {
    page.report.all.rows
}

fn head(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let line = "═".repeat(WIDTH);
    let _ = writeln!(out, "{line}\n  GPU 점유·유휴 점검 리포트");
    let host = match &report.host {
        None => "unknown (?)".to_owned(),
        Some(host) => labels::host(host),
    };
    let _ = writeln!(out, "  호스트  {host}");
    let _ = writeln!(
        out,
        "  구간    {} ~ {} {} ({})   ·   NVML {} 샘플 · {} 관측",
        page.long(report.window.from()),
        page.short(report.window.to()),
        page.zone_name(),
        since(report.window.micros()),
        interval(report.tick_interval),
        grouped(observations(page))
    );
    if let Some(person) = &report.person {
        let _ = writeln!(out, "  사용자  {}", sanitize(person));
    }
    let _ = writeln!(out, "{line}\n");
}

fn summary(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let _ = writeln!(out, "요약");
    if report.person.is_some() {
        let held = &report.all.held;
        let _ = writeln!(
            out,
            "  점유 {:.2} GPU-시간   ·   유휴점유 {:.0}%",
            held.hours(),
            held.idle_share().unwrap_or(0.0) * 100.0
        );
    } else {
        let share = |class| report.all.share(class).unwrap_or(0.0) * 100.0;
        let _ = write!(
            out,
            "  실가동 {:.0}%   ·   유휴점유 {:.0}%   ·   완전유휴 {:.0}%",
            share(RollUp::Active),
            share(RollUp::IdleHeld),
            share(RollUp::TrulyIdle)
        );
        if let Some(unknown) = report.all.unknown_share().filter(|share| *share > 0.0) {
            let _ = write!(out, "   ·   사용률 미상 {:.0}%", unknown * 100.0);
        }
        out.push('\n');
        let _ = writeln!(
            out,
            "  GPU {}장 중 평균 {:.1}장이 쉬었고, 점유만 하고 쓰지 않은 시간은 약 {:.0} GPU-시간입니다.",
            report.now.as_ref().map_or(0, |now| now.cards.len()),
            report.equivalent(RollUp::IdleHeld) + report.equivalent(RollUp::TrulyIdle),
            report.all.hours(RollUp::IdleHeld)
        );
    }
    let free = report.now.as_ref().map_or(0, |now| free(now).count());
    let _ = writeln!(
        out,
        "  현재 점유 {}건   ·   기간 중 낭비 {}건   ·   현재 가용 {free}장\n",
        report.holders.len(),
        report.past_count
    );
}

fn to_act_on(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let _ = writeln!(
        out,
        "■ 조치 필요 — 점유 중이지만 쓰지 않는 GPU ({}건)\n",
        report.holders.len()
    );
    if report.holders.is_empty() {
        let _ = writeln!(out, "  해당하는 프로세스가 없습니다.\n");
        return;
    }
    let columns: [BoxColumn<'_, Hold>; 6] = [
        ("GPU", Align::Left, &|hold| {
            column_label(hold.index, hold.gpu.as_str())
        }),
        ("소유자", Align::Left, &owner),
        ("프로세스 (PID)", Align::Left, &|hold| {
            format!("{} ({})", process(hold), labels::pid(hold))
        }),
        ("점유", Align::Right, &held),
        ("평균util", Align::Right, &util),
        ("최대mem", Align::Right, &|hold| {
            megabytes(hold.peak_memory)
        }),
    ];
    let holders: Vec<&Hold> = report.holders.iter().collect();
    let _ = writeln!(out, "{}", boxed(&columns, &holders));
    for hold in &report.holders {
        let outside = match hold.by_login {
            true => "",
            false => "  ·  로그인으로 확인된 사용자 아님(서비스·컨테이너일 수 있음)",
        };
        let _ = writeln!(
            out,
            "  {}  ·  {}{outside}",
            detail_label(hold),
            span(page, hold)
        );
        let host = report
            .host
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |host| sanitize(&host.name));
        let card = labels::gpu_name(hold.index, &hold.gpu, "");
        let look = format!("ssh {host} 'nvidia-smi -i {card}'");
        // There is no stop command for an old process: its PID may have been reused.
        let stop = labels::commands(page, hold).map(|(_, stop)| stop);
        let _ = match (stop, hold.by_login) {
            (Some(stop), true) => writeln!(out, "    ↳ 확인하고 정리:  {look}  →  {stop}"),
            (Some(stop), false) => writeln!(
                out,
                "    ↳ 먼저 확인:  {look}  (끝내도 되는 작업이면 {stop})"
            ),
            (None, _) => writeln!(
                out,
                "    ↳ 마지막 수집이 오래되었습니다. 아직 있는지 먼저 확인:  {look}"
            ),
        };
    }
    out.push('\n');
}

fn past_waste(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.past_count == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "■ 기간 중 낭비 이력 — 쓰지 않고 점유했다가 끝난 프로세스 ({}건)\n",
        report.past_count
    );
    let columns: [BoxColumn<'_, Hold>; 6] = [
        ("GPU", Align::Left, &|hold| {
            column_label(hold.index, hold.gpu.as_str())
        }),
        ("소유자", Align::Left, &owner),
        ("프로세스", Align::Left, &process),
        ("점유 기간", Align::Left, &|hold| {
            page.between(hold.period, "→")
        }),
        ("지속", Align::Right, &held),
        ("평균util", Align::Right, &util),
    ];
    let past: Vec<&Hold> = report.past.iter().take(PAST_ROWS).collect();
    let shown = past.len();
    out.push_str(&boxed(&columns, &past));
    if report.past_count > shown {
        let _ = writeln!(out, "  … 외 {}건", report.past_count - shown);
    }
    out.push('\n');
}

fn all_gpus(out: &mut String, now: &Now) {
    let _ = writeln!(out, "■ 전체 GPU 상태 — 현재 ({}장)\n", now.cards.len());
    let none = || "—".to_owned();
    let columns: [BoxColumn<'_, CardNow>; 6] = [
        ("GPU", Align::Left, &|card| {
            column_label(card.index, card.gpu.as_str())
        }),
        ("상태", Align::Left, &|card| {
            state_now(card.state).to_owned()
        }),
        ("util", Align::Right, &|card| {
            card.util.map_or_else(none, |util| format!("{util}%"))
        }),
        ("메모리", Align::Right, &|card| {
            megabytes(card.memory_used)
        }),
        ("소유자", Align::Left, &|card| {
            let owner = card.owners.first().filter(|owner| *owner != UNKNOWN);
            owner.map_or_else(none, |owner| sanitize(owner))
        }),
        ("프로세스", Align::Left, &|card| {
            card.process.as_deref().map_or_else(none, sanitize)
        }),
    ];
    let _ = writeln!(out, "{}", boxed(&columns, &by_index(now)));
    let names: Vec<String> = free(now)
        .map(|card| column_label(card.index, card.gpu.as_str()))
        .collect();
    if !names.is_empty() {
        let _ = writeln!(
            out,
            "현재 가용 ({}장):  {}   →  지금 바로 쓸 수 있습니다\n",
            names.len(),
            names.join(" ")
        );
    }
}

fn refused_requests(out: &mut String, page: &Page<'_>) {
    let Some(refused) = &page.report.refused else {
        return;
    };
    let title = labels::REFUSED.of(Language::Korean);
    let _ = writeln!(out, "■ {title} ({}건)\n", refused.requests);
    for line in labels::refused_lines(refused, page.top, Language::Korean) {
        let _ = writeln!(out, "  {line}");
    }
    let left_out = refused.in_the_way.len().saturating_sub(page.top);
    if left_out > 0 {
        let _ = writeln!(out, "  … 외 {left_out}건");
    }
    out.push('\n');
}

fn foot(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let (util, memory) = (
        report.thresholds.active_util.get(),
        report.thresholds.held_mb,
    );
    let _ = writeln!(out, "{}", "─".repeat(WIDTH));
    let _ = writeln!(
        out,
        "  구분   조치 필요: 마지막 틱에도 점유 중 · 낭비 이력: 기간 중 점유 후 종료 · 전체 상태: 마지막 틱"
    );
    let _ = writeln!(
        out,
        "  상태   실가동: util {util}% 이상 · 유휴점유: util {util}% 미만이고 메모리 {memory}MB 초과 · 완전유휴: 나머지"
    );
    let graphics = match report.thresholds.count_graphics {
        gua_model::CountGraphics::Yes => "화면용(graphics) 프로세스 포함",
        gua_model::CountGraphics::No => "화면용(graphics) 프로세스 제외",
    };
    let _ = writeln!(
        out,
        "  기준   util은 NVML이 알려 준 값 · {graphics} · 소유자는 로그인 사용자, 없으면 프로세스의 UID"
    );
    if report.all.observed() > Micros(0)
        && let Some(share) = report.coverage.share()
    {
        let _ = writeln!(
            out,
            "  관측   전체 {:.2} GPU-시간 중 {:.1}% 관측 · 공백 {:.2} GPU-시간(비율에 넣지 않음)",
            report.coverage.capacity.hours(),
            share * 100.0,
            report.coverage.gap.hours()
        );
    }
    notes(out, page);
    let _ = writeln!(
        out,
        "  생성   {} {} · gua {}",
        page.long(report.made),
        page.zone_name(),
        page.version
    );
}

fn notes(out: &mut String, page: &Page<'_>) {
    for note in &page.report.notes {
        let _ = writeln!(
            out,
            "  참고   {}",
            labels::note(page, note, Language::Korean)
        );
    }
}

fn by_table(out: &mut String, page: &Page<'_>, by: By) {
    let mut rows = table(page.report, by);
    let all = rows.rows.len();
    // A time series is not truncated: that would hide the newest rows.
    if matches!(by, By::User | By::Gpu) {
        rows.rows.truncate(page.top);
    }
    for column in &mut rows.columns {
        column.title = labels::column(&column.key, &column.title, Language::Korean);
    }
    if by == By::State {
        labels::name_states(&mut rows, Language::Korean);
    }
    let _ = writeln!(out, "■ {}\n", labels::by(by).of(Language::Korean));
    out.push_str(&rows.text(2));
    if all > rows.rows.len() {
        let _ = writeln!(out, "  … 외 {}건", all - rows.rows.len());
    }
    let _ = writeln!(out, "  시각은 {} 기준입니다", page.zone_name());
}

fn by_index(now: &Now) -> Vec<&CardNow> {
    let mut cards: Vec<&CardNow> = now.cards.iter().collect();
    cards.sort_by_key(|card| card.index.unwrap_or(u32::MAX));
    cards
}

fn free(now: &Now) -> impl Iterator<Item = &CardNow> {
    by_index(now)
        .into_iter()
        .filter(|card| card.state == State::TrulyIdle)
}

fn state_now(state: State) -> &'static str {
    match (state, state.roll_up()) {
        (State::HeldUnknown, _) => "점유(미상)",
        (_, Some(RollUp::Active)) => "사용중",
        (_, Some(RollUp::IdleHeld)) => "유휴점유",
        (_, Some(RollUp::TrulyIdle)) => "비어있음",
        (_, None) => "미관측",
    }
}

fn owner(hold: &Hold) -> String {
    hold.owner
        .as_deref()
        .map_or_else(|| "unknown".to_owned(), sanitize)
}

fn process(hold: &Hold) -> String {
    sanitize(hold.process.as_deref().unwrap_or("?"))
}

fn megabytes(memory: Option<Bytes>) -> String {
    memory.map_or_else(
        || "—".to_owned(),
        |memory| format!("{}MB", grouped(memory.whole_mb())),
    )
}

fn held(hold: &Hold) -> String {
    format!("{:.1}h", hold.period.micros().hours())
}

fn util(hold: &Hold) -> String {
    hold.util
        .map_or_else(|| "—".to_owned(), |(util, _)| format!("{util:.0}%"))
}

/// Returns the second part of a UUID, which identifies the GPU.
fn short(uuid: &str) -> &str {
    uuid.split('-').nth(1).unwrap_or(uuid)
}

fn column_label(index: Option<u32>, uuid: &str) -> String {
    match index {
        Some(index) => format!("#{index}"),
        None => sanitize(&short(uuid).chars().take(6).collect::<String>()),
    }
}

fn detail_label(hold: &Hold) -> String {
    let short = sanitize(short(hold.gpu.as_str()));
    match hold.index {
        None => format!("GPU {short}"),
        Some(index) if index.to_string() == short => format!("GPU#{index}"),
        Some(index) => format!("GPU#{index} {short}"),
    }
}

fn span(page: &Page<'_>, hold: &Hold) -> String {
    let from = page.short(hold.period.from());
    let seconds = page.report.made.duration_since(hold.period.to()).as_secs();
    if seconds > STILL_THERE_SECONDS {
        return page.between(hold.period, " → ");
    }
    format!("{from} → 계속 ({})", ago(seconds.max(0)))
}

#[cfg(test)]
mod tests;
