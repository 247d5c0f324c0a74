//! The action report in Korean, with the labels and columns that readers of gpu-usage-audit 1.7 and later know: who holds
//! a GPU without using it now, who did, and which GPUs are free.

mod boxes;
mod spell;

use gua_model::report::{GpuStatus, Hold, Now, Report, UNKNOWN};
use gua_model::text::sanitize;
use gua_model::{Bytes, CountGraphics, Micros, RollUp, State};

use self::boxes::boxed;
use self::spell::{ago, grouped, interval, since};
use super::{By, Page, labels, table};
use crate::language::Language;
use crate::table::table;

const WIDTH: usize = 74;
/// Maximum number of past holders in the list.
const PAST_ROWS: usize = 8;
/// Maximum age of the last sample of a holder that counts as present, as in gpu-usage-audit.
const STILL_THERE_SECONDS: i64 = 300;

/// The whole report, or with `--by` its head and that table.
pub fn korean(page: &Page<'_>) -> String {
    let report = page.report;
    let mut out = String::new();
    head(&mut out, page);
    if report.all.rows == 0 {
        line!(
            out,
            "이 구간에는 관측 데이터가 없습니다. 수집기가 실행 중인지 `gua status`로 확인해 주세요."
        );
        notes(&mut out, page);
        return out;
    }
    summary(&mut out, page);
    if let Some(by) = page.by {
        by_table(&mut out, page, by);
        notes(&mut out, page);
        return out;
    }
    holders(&mut out, page);
    past_waste(&mut out, page);
    if let Some(now) = &report.now {
        all_gpus(&mut out, now);
    }
    refused_requests(&mut out, page);
    foot(&mut out, page);
    out
}

fn head(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let line = "═".repeat(WIDTH);
    let host = report.host.as_ref();
    let host = host.map_or_else(|| "unknown (?)".to_owned(), labels::host);
    let (from, to) = (
        page.long(report.window.from()),
        page.short(report.window.to()),
    );
    let (zone, length) = (page.zone_name(), since(report.window.micros()));
    let (interval, rows) = (interval(report.tick_interval), grouped(report.all.rows));
    line!(out, "{line}\n  GPU 점유·유휴 점검 리포트\n  호스트  {host}");
    line!(
        out,
        "  구간    {from} ~ {to} {zone} ({length})   ·   NVML {interval} 샘플 · {rows} 관측"
    );
    if let Some(person) = &report.person {
        line!(out, "  사용자  {}", sanitize(person));
    }
    line!(out, "{line}\n");
}

fn summary(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    line!(out, "요약");
    if report.person.is_some() {
        let held = &report.all.held;
        let (hours, idle) = (held.hours(), held.idle_share().unwrap_or(0.0) * 100.0);
        line!(out, "  점유 {hours:.2} GPU-시간   ·   유휴점유 {idle:.0}%");
    } else {
        let share = |class| report.all.share(class).unwrap_or(0.0) * 100.0;
        let [active, idle_held, truly_idle] = RollUp::ALL.map(share);
        let unknown = report.all.unknown_share().filter(|share| *share > 0.0);
        let unknown = unknown.map(|share| format!("   ·   사용률 미상 {:.0}%", share * 100.0));
        let unknown = unknown.unwrap_or_default();
        line!(
            out,
            "  실가동 {active:.0}%   ·   유휴점유 {idle_held:.0}%   ·   완전유휴 {truly_idle:.0}%{unknown}"
        );
        // Of the same window as the mean. The original counts the GPUs of the last tick, and so prints 2.9 of 2.
        let gpus = report.gpu_count();
        let unused = report.equivalent(RollUp::IdleHeld) + report.equivalent(RollUp::TrulyIdle);
        let hours = report.all.hours(RollUp::IdleHeld);
        line!(
            out,
            "  GPU {gpus}장 중 평균 {unused:.1}장이 쉬었고, 점유만 하고 쓰지 않은 시간은 약 {hours:.0} GPU-시간입니다."
        );
    }
    let free = report.now.as_ref().map_or(0, |now| free(now).count());
    let (holders, past) = (to_act_on(report).len(), report.past_count);
    line!(
        out,
        "  현재 점유 {holders}건   ·   기간 중 낭비 {past}건   ·   현재 가용 {free}장\n"
    );
}

/// Holders that someone should look after: those of idle GPUs. For old rows alone, those with a low mean, as the tool that
/// wrote the rows lists them.
fn to_act_on(report: &Report) -> Vec<&Hold> {
    if report.all.observed() > Micros(0) {
        return report.idle_now();
    }
    let current = report.current.iter();
    let unused = current.filter(|hold| hold.is_without_use(&report.thresholds));
    unused.collect()
}

fn holders(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let holders = to_act_on(report);
    line!(
        out,
        "■ 조치 필요 — 점유 중이지만 쓰지 않는 GPU ({}건)\n",
        holders.len()
    );
    if holders.is_empty() {
        return line!(out, "  해당하는 프로세스가 없습니다.\n");
    }
    let rows = table!(hold in &holders =>
        "GPU" => column_label(hold.index, hold.gpu.as_str()),
        "소유자" => owner(hold),
        "프로세스 (PID)" => format!("{} ({})", process(hold), labels::pid(hold)),
        "점유" [Right] => held(hold),
        "평균util" [Right] => util(hold),
        "최대mem" [Right] => megabytes(hold.peak_memory),
    );
    line!(out, "{}", boxed(&rows));
    let host = report.host.as_ref();
    let host = host.map_or_else(|| "unknown".to_owned(), |host| sanitize(&host.name));
    for hold in holders {
        let outside = match hold.by_login {
            true => "",
            false => "  ·  로그인으로 확인된 사용자 아님(서비스·컨테이너일 수 있음)",
        };
        line!(
            out,
            "  {}  ·  {}{outside}",
            detail_label(hold),
            span(page, hold)
        );
        let gpu = labels::gpu_name(hold.index, &hold.gpu, "");
        let look = format!("ssh {host} 'nvidia-smi -i {gpu}'");
        // There is no stop command for an old process: its PID may have been reused.
        let commands = labels::commands(page, hold);
        match (commands.map(|commands| commands.stop), hold.by_login) {
            (Some(None), _) => {
                let decide = labels::decide(page, hold, Language::Korean);
                line!(out, "    ↳ 먼저 확인:  {look}  ({decide})");
            }
            (Some(Some(stop)), true) => line!(out, "    ↳ 확인하고 정리:  {look}  →  {stop}"),
            (Some(Some(stop)), false) => {
                line!(
                    out,
                    "    ↳ 먼저 확인:  {look}  (끝내도 되는 작업이면 {stop})"
                );
            }
            (None, _) => line!(
                out,
                "    ↳ 마지막 수집이 오래되었습니다. 아직 있는지 먼저 확인:  {look}"
            ),
        }
    }
    out.push('\n');
}

fn past_waste(out: &mut String, page: &Page<'_>) {
    let (all, past) = (page.report.past_count, &page.report.past);
    if all == 0 {
        return;
    }
    line!(
        out,
        "■ 기간 중 낭비 이력 — 쓰지 않고 점유했다가 끝난 프로세스 ({all}건)\n"
    );
    let rows = table!(hold in past.iter().take(PAST_ROWS) =>
        "GPU" => column_label(hold.index, hold.gpu.as_str()),
        "소유자" => owner(hold),
        "프로세스" => process(hold),
        "점유 기간" => page.between(hold.period, "→"),
        "지속" [Right] => held(hold),
        "평균util" [Right] => util(hold),
    );
    out.push_str(&boxed(&rows));
    more(out, all, rows.rows.len());
    out.push('\n');
}

/// Counts the rows that are not shown, if there are any.
fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        line!(out, "  … 외 {}건", all - shown);
    }
}

fn all_gpus(out: &mut String, now: &Now) {
    line!(out, "■ 전체 GPU 상태 — 현재 ({}장)\n", now.gpus.len());
    let none = || "—".to_owned();
    let owner = |gpu: &GpuStatus| {
        let owner = gpu.owners.first().filter(|owner| *owner != UNKNOWN);
        owner.map_or_else(none, String::clone)
    };
    let rows = table!(gpu in by_index(now) =>
        "GPU" => column_label(gpu.index, gpu.gpu.as_str()),
        "상태" => state_now(gpu.state),
        "util" [Right] => gpu.util.map_or_else(none, |util| format!("{util}%")),
        "메모리" [Right] => megabytes(gpu.memory_used),
        "소유자" => owner(gpu),
        "프로세스" => gpu.process.clone().unwrap_or_else(none),
    );
    line!(out, "{}", boxed(&rows));
    let names: Vec<String> = free(now)
        .map(|gpu| column_label(gpu.index, gpu.gpu.as_str()))
        .collect();
    if !names.is_empty() {
        let (count, names) = (names.len(), names.join(" "));
        line!(
            out,
            "현재 가용 ({count}장):  {names}   →  지금 바로 쓸 수 있습니다\n"
        );
    }
}

fn refused_requests(out: &mut String, page: &Page<'_>) {
    let Some(refused) = &page.report.refused else {
        return;
    };
    let title = labels::REFUSED.of(Language::Korean);
    line!(out, "■ {title} ({}건)\n", refused.requests);
    for line in labels::refused_lines(refused, page.top, Language::Korean) {
        line!(out, "  {line}");
    }
    more(out, refused.in_the_way.len(), page.top);
    out.push('\n');
}

fn foot(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let thresholds = &report.thresholds;
    let (util, memory) = (thresholds.active_util.get(), thresholds.held_mb);
    let graphics = match thresholds.count_graphics {
        CountGraphics::Yes => "포함",
        CountGraphics::No => "제외",
    };
    line!(out, "{}", "─".repeat(WIDTH));
    line!(
        out,
        "  구분   조치 필요: 마지막 틱에도 점유 중 · 낭비 이력: 기간 중 점유 후 종료 · 전체 상태: 마지막 틱"
    );
    line!(
        out,
        "  상태   실가동: util {util}% 이상 · 유휴점유: util {util}% 미만이고 메모리 {memory}MB 초과 · 완전유휴: 나머지"
    );
    line!(
        out,
        "  기준   util은 NVML이 알려 준 값 · 화면용(graphics) 프로세스 {graphics} · 소유자는 로그인 사용자, 없으면 프로세스의 UID"
    );
    let covered = &report.coverage;
    if report.all.observed() > Micros(0)
        && let Some(share) = covered.share()
    {
        let (share, all, gap) = (share * 100.0, covered.capacity.hours(), covered.gap.hours());
        line!(
            out,
            "  관측   전체 {all:.2} GPU-시간 중 {share:.1}% 관측 · 공백 {gap:.2} GPU-시간(비율에 넣지 않음)"
        );
    }
    notes(out, page);
    let (made, zone, version) = (page.long(report.made), page.zone_name(), page.version);
    line!(out, "  생성   {made} {zone} · gua {version}");
}

fn notes(out: &mut String, page: &Page<'_>) {
    for note in &page.report.notes {
        line!(
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
    if by.is_ranked() {
        rows.rows.truncate(page.top);
    }
    for column in &mut rows.columns {
        column.title = labels::column(&column.key, &column.title, Language::Korean);
    }
    if by == By::State {
        labels::name_states(&mut rows, Language::Korean);
    }
    line!(out, "■ {}\n", labels::by(by).of(Language::Korean));
    out.push_str(&rows.text(2));
    more(out, all, rows.rows.len());
    line!(out, "  시각은 {} 기준입니다", page.zone_name());
}

fn by_index(now: &Now) -> Vec<&GpuStatus> {
    let mut gpus: Vec<&GpuStatus> = now.gpus.iter().collect();
    gpus.sort_by_key(|gpu| gpu.index.unwrap_or(u32::MAX));
    gpus
}

fn free(now: &Now) -> impl Iterator<Item = &GpuStatus> {
    let gpus = by_index(now).into_iter();
    gpus.filter(|gpu| gpu.is_free)
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
    sanitize(hold.owner.as_deref().unwrap_or("unknown"))
}

fn process(hold: &Hold) -> String {
    sanitize(hold.process.as_deref().unwrap_or("?"))
}

fn megabytes(memory: Option<Bytes>) -> String {
    let shown = memory.map(|memory| format!("{}MB", grouped(memory.whole_mb())));
    shown.unwrap_or_else(|| "—".to_owned())
}

fn held(hold: &Hold) -> String {
    format!("{:.1}h", hold.period.micros().hours())
}

fn util(hold: &Hold) -> String {
    let shown = hold.util.map(|(util, _)| format!("{util:.0}%"));
    shown.unwrap_or_else(|| "—".to_owned())
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
