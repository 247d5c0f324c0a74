//! The text of pages in each language. Stable names (keys, names of states in files) are defined elsewhere.

use gua_model::report::{BlockRow, GpuStatus, Hold, Host, Note, Now, Refused, Report};
use gua_model::text::sanitize;
use gua_model::{CalendarUnit, GapReason, GpuUuid, Micros, RollUp, State};

use super::{By, Page};
use crate::language::{Label, Language, labels, phrases};
use crate::table::{Cell, Table};

labels! {
    TITLE = "GPU usage report", "GPU 사용 리포트";
    NO_HOST = "no host recorded yet", "아직 기록된 호스트 없음";
    WINDOW = "window", "구간";
    TIME_ZONE = "times in", "표준 시간대";
    DRIVER = "driver", "드라이버";
    ENVIRONMENT = "environment", "환경";
    MADE = "made", "생성";
    PERSON = "only", "대상 사용자";
    SUMMARY = "Summary", "요약";
    OVER_TIME = "How the GPUs' time was spent", "시간에 따른 GPU 상태";
    PERSON_OVER_TIME = "What was held over time", "시간에 따른 점유";
    HOLDERS = "Idle now", "조치 필요 — 점유 중이지만 쓰지 않는 GPU";
    NOW = "All GPUs at the last tick", "전체 GPU 상태 — 마지막 틱";
    PEOPLE = "People", "사용자";
    PEOPLE_CHART = "GPU-hours by person", "사용자별 GPU 시간";
    GROUP_CHART = "GPU-hours held", "점유 GPU 시간";
    SESSIONS = "Who held what, when", "누가 언제 점유했나";
    HEAT = "When the GPUs are busy", "요일·시간대별 가동률";
    PERSON_HEAT = "When GPUs are held", "요일·시간대별 점유율";
    HEAT_GPU = "How busy each GPU was", "GPU별 가동률";
    HEAT_USER = "What each person held", "사용자별 점유";
    GPU_CHART = "GPU-hours held of each GPU", "GPU별 점유 시간";
    QUIET = "How busy each hour of the day is", "시간대별 사용";
    GPUS = "Each GPU", "GPU별";
    PAST = "Past waste", "기간 중 낭비 이력";
    COVERAGE = "Coverage and gaps", "관측 범위와 공백";
    ENERGY = "States and energy", "상태별 시간과 에너지";
    REFUSED = "Requests not granted at once", "요청했지만 바로 받지 못한 GPU";
    NOTES = "Notes", "참고";
    COSTS = "Costs", "비용";
    COSTS_MEAN =
        "held: the time of GPUs that something held, at their price. charged: a person's charged hours at the price of each GPU.",
        "점유: 점유된 GPU 시간의 가격. 배분: 사용자에게 배분된 시간의 가격.";
    METHOD = "How to read this", "읽는 법";
    HELD_HOURS = "held GPU-hours", "점유 GPU 시간";
    SHARE_ACTIVE = "share of time active", "실가동 시간 비율";
    SHARE_HELD = "share of time held", "점유 시간 비율";
    SOLID_PART =
        "In the chart, hours count in full, also on shared GPUs; its solid part is the time that was not idle-held.",
        "차트는 공유 GPU도 점유 시간 전체로 셉니다. 단색 부분은 유휴점유가 아니었던 시간입니다.";
    OBSERVED = "observed", "관측";
    NOT_IDLE_HELD = "not idle-held", "유휴점유 아님";
    GAP = "gap", "관측 공백";
    SHARED = "shared", "공유";
    UNKNOWN = "unknown", "알 수 없음";
    FREE = "free", "현재 가용";
    LOOK = "look", "확인";
    STOP = "stop", "종료";
    LATE_TICKS = "ticks came a little late", "수집이 조금 늦음";
    NOTHING = "nothing in window", "이 구간에 해당하는 항목이 없습니다";
    NO_SAMPLES = "There are no samples in this window.", "이 구간에는 샘플이 없습니다.";
    BEGIN =
        "`gua status` shows whether a collector is running, `gua daemon` creates one, and --since selects a longer window.",
        "`gua status`는 수집기가 실행 중인지 알려 주고, `gua daemon`은 수집을 시작하며, --since로 더 긴 구간을 볼 수 있습니다.";
    NO_GPU = "no GPU was known in this window", "이 구간에 알려진 GPU가 없습니다";
    NOTHING_BEFORE = "Nothing was observed in the earlier period.", "이전 기간에는 관측된 것이 없습니다.";
    NOTHING_NOW = "Nothing was observed in this period.", "이번 기간에는 관측된 것이 없습니다.";
    NO_ENERGY = "these GPUs have no energy counter", "이 GPU들은 에너지를 집계하지 않습니다";
    CHARGED =
        "held: a person's hours on a GPU in full. charged: the time of a GPU shared equally among the people on it, so that people add up to the GPU. Energy is charged the same way, in kWh, NVML-reported.",
        "점유: 사용자가 GPU를 잡고 있던 시간 전체. 배분: 같은 GPU에 있던 사람들이 시간을 똑같이 나눈 값으로, 모두 더하면 GPU의 시간이 됩니다. 에너지(kWh, NVML 보고값)도 같은 방식으로 배분합니다.";
    REFUSED_MEANS =
        "requests by `gua available --claim` and `--wait` that were not granted at once",
        "`gua available --claim`이나 `--wait`로 요청했지만 바로 받지 못한 경우입니다";
    NONE_IN_THE_WAY = "no idle-held GPU blocked a request", "유휴점유 GPU 때문에 받지 못한 경우는 없습니다";
    PAST_MEANS =
        "processes that held a GPU without use and were no longer there at the last tick; whole sessions",
        "GPU를 잡고도 쓰지 않다가 마지막 틱에는 없던 프로세스입니다 (세션 전체)";
    IMPORTED_SESSIONS = "Imported sessions have one state, that of their mean utilisation.", "가져온 세션은 평균 사용률에 따른 상태 하나로 표시합니다.";
    HOLDERS_THEN = "Idle at the last tick", "조치 필요 — 점유 중이지만 쓰지 않는 GPU";
    NO_OWNER = "owner unknown: decide first", "소유자를 알 수 없습니다. 먼저 판단하세요";
    EXITED = "the process has exited: check that no other uses the GPU", "프로세스가 이미 끝났습니다. 다른 프로세스가 GPU를 쓰지 않는지 먼저 확인하세요";
    EXITED_ON_INSTANCE =
        "the process has exited: ask an administrator to reset the physical GPU when none of its instances is in use",
        "프로세스가 이미 끝났습니다. 물리 GPU의 모든 인스턴스가 쓰이지 않을 때 초기화하도록 관리자에게 요청하세요";
    MIXED =
        "rows of gpu-usage-audit count whole ticks, own ticks the time that they observed; charged hours and energy are of own ticks alone",
        "gpu-usage-audit의 행은 틱 전체를, gua의 틱은 실제 관측한 시간을 셉니다. 배분 시간과 에너지는 gua의 틱만으로 계산합니다";
    SESSIONS_BY_FILE =
        "sessions (sections 7 and 8) keep the thresholds that the history was made with",
        "세션(조치 필요, 낭비 이력)은 기록을 만들 때의 기준값을 따릅니다";
    GRAPHICS_LEFT_OUT =
        "rows of graphics-only processes are left out; --count-graphics counts them, as gpu-usage-audit did",
        "화면 표시만 하는 프로세스의 행은 제외했습니다. --count-graphics를 주면 gpu-usage-audit처럼 함께 셉니다";
}

/// Name of a GPU's state at the last tick. A GPU that nothing holds is called free.
pub(super) fn state_word(gpu: &GpuStatus, language: Language) -> &'static str {
    match gpu.state {
        State::TrulyIdle if gpu.is_free || !gpu.faults.is_empty() => FREE.of(language),
        other => state(other, language),
    }
}

/// Name of a GPU's state at the last tick, with its most serious fault.
pub(super) fn state_now(gpu: &GpuStatus, language: Language) -> String {
    let word = state_word(gpu, language);
    match gpu.faults.first() {
        Some(fault) => unhealthy(word, fault, language),
        None => word.to_owned(),
    }
}

/// Returns the display name of a state.
pub(super) fn state(state: State, language: Language) -> &'static str {
    let korean = match state {
        State::Active => "실가동",
        State::Stalled => "정체",
        State::Ghost => "유령",
        State::IdleHeld => "유휴점유",
        State::OrphanHeld => "고아점유",
        State::HeldUnknown => "점유(사용률 미상)",
        State::TrulyIdle => "완전유휴",
        State::Unobserved => "미관측",
    };
    language.pick(state.as_str(), korean)
}

/// Returns the display name of a roll-up.
pub(super) fn class(class: RollUp, language: Language) -> &'static str {
    state(class.into(), language)
}

/// Replaces the stable names of states in the first column of a table by their display names.
pub(super) fn name_states(table: &mut Table, language: Language) {
    for row in &mut table.rows {
        if let Some(Cell::Text(word)) = row.first_mut() {
            let known = State::ALL.into_iter().find(|state| state.as_str() == word);
            let name = known.map_or(GAP.of(language), |known| state(known, language));
            name.clone_into(word);
        }
    }
}

/// Title of the chart of states over time.
pub(super) fn over_time(report: &Report) -> Label {
    report
        .person
        .as_ref()
        .map_or(OVER_TIME, |_| PERSON_OVER_TIME)
}

/// Title of the chart of the hours of the week.
pub(super) fn heat(report: &Report) -> Label {
    report.person.as_ref().map_or(HEAT, |_| PERSON_HEAT)
}

/// Titles of columns by their keys, in Korean.
const COLUMNS: &[(&str, &str)] = &[
    ("measure", "항목"),
    ("previous", "이전"),
    ("now", "이번"),
    ("change", "변화"),
    ("user", "사용자"),
    ("owner", "사용자"),
    ("gpu", "GPU"),
    ("gpu_uuid", "GPU"),
    ("gpu_name", "모델"),
    ("samples", "샘플"),
    ("held_hours", "점유 h"),
    ("idle_held_hours", "유휴점유 h"),
    ("idle_held_share", "유휴점유"),
    ("charged_hours", "배분 h"),
    ("active_hours", "실가동 h"),
    ("truly_idle_hours", "완전유휴 h"),
    ("held_unknown_hours", "미상 h"),
    ("gap_hours", "공백 h"),
    ("active_share", "실가동"),
    ("truly_idle_share", "완전유휴"),
    ("util_mean_percent", "평균util"),
    ("peak_memory_mb", "최대 MB"),
    ("memory_mb", "메모리 MB"),
    ("state", "상태"),
    ("hours", "시간"),
    ("share", "비율"),
    ("day", "날짜"),
    ("hour", "시각"),
    ("month", "월"),
    ("process", "프로세스"),
    ("when", "기간"),
    ("gpus", "GPU 수"),
    ("reason", "이유"),
    ("since", "점유 시작"),
    ("idle", "유휴 시간"),
    ("holder", "점유자"),
    ("requester", "요청자"),
    ("times", "횟수"),
    ("waited_hours", "기다린 시간 h"),
];

/// Returns the title of a column by its key. `title` is the English one.
pub(super) fn column(key: &str, title: &str, language: Language) -> String {
    let korean = COLUMNS.iter().find(|(known, _)| *known == key);
    let korean = korean.map_or(title, |(_, korean)| korean);
    language.pick(title, korean).to_owned()
}

/// Explains the reason for a gap.
pub(super) fn reason(reason: GapReason, language: Language) -> &'static str {
    let label = match reason {
        GapReason::CollectorDown => Label("no collector was running", "수집기가 실행되지 않음"),
        GapReason::DriverHung => Label("the driver did not answer", "드라이버가 응답하지 않음"),
        GapReason::DriverUnavailable => Label("the driver was missing", "드라이버를 찾을 수 없음"),
        GapReason::GpuLost => Label("the GPU was lost", "GPU가 사라짐"),
        GapReason::Denied => Label("a reading was denied", "읽기 권한이 없음"),
        GapReason::Failed => Label("a reading failed", "읽기 실패"),
        GapReason::DiskFull => Label("the disk was full", "디스크가 가득 참"),
        GapReason::Suspended => Label("the host was suspended", "시스템이 절전 상태였음"),
        GapReason::ClockSet => Label("the clock was set", "시계가 변경됨"),
        GapReason::NotStored => Label("the tick could not be stored", "틱을 저장하지 못함"),
    };
    label.of(language)
}

phrases! {
    widened(asked: &str) =
        "single ticks of that time are no longer kept: the window {asked} was widened to whole quarter hours",
        "그 시간의 개별 틱은 더 이상 보관되지 않아, 구간 {asked}을(를) 15분 단위로 넓혔습니다";
    damaged(records: u64) =
        "{records} damaged ticks or totals could not be read; their time is a gap (`gua db check` shows details)",
        "손상된 틱 또는 합계 {records}개를 읽지 못했습니다. 그 시간은 공백으로 셉니다 (`gua db check`로 확인)";
    damaged_rows(rows: u64) =
        "{rows} damaged rows about sessions, GPUs, owners, outages, requests or collector runs could not be read and are left out (`gua db check` shows details)",
        "세션, GPU, 소유자, 중단, 요청 또는 수집기 실행에 관한 손상된 행 {rows}개를 읽지 못해 제외했습니다 (`gua db check`로 확인)";
    overlap(hours: f64) =
        "old ticks overlap by {hours:.2} GPU-hours (two collectors, or a clock set back); each counts in full, as in the tool that wrote them",
        "옛 파일의 틱이 {hours:.2} GPU 시간만큼 겹칩니다. 기록한 도구와 같이 모두 그대로 셉니다";
    old_left_out(ticks: u64) =
        "{ticks} GPU ticks of gpu-usage-audit are left out: gua's own ticks cover that time, and no time counts twice",
        "gua의 틱이 이미 본 시간의 gpu-usage-audit 행 {ticks}개는 두 번 세지 않도록 제외했습니다";
    unbalanced(gpus: &str) =
        "left out, because states and gaps do not add up to the capacity: {gpus} (`gua db check` says why)",
        "상태와 공백의 합이 전체 시간과 맞지 않아 제외했습니다: {gpus} (`gua db check`로 확인)";
    unhealthy(state: &str, fault: &str) = "{state}, unhealthy: {fault}", "{state}, 이상: {fault}";
    history_begins(began: &str) =
        "the history begins {began}; earlier time is not counted",
        "기록은 {began}에 시작합니다. 그 전의 시간은 세지 않습니다";
    observed_unequally(before: f64, now: f64) =
        "The earlier period was observed for {before:.0} % of its time, this one for {now:.0} %: hours are those of the observed part.",
        "이전 기간은 {before:.0}%, 이번 기간은 {now:.0}% 관측되었습니다. 시간은 관측된 부분의 값입니다.";
    compared_with(period: &str) = "Compared with {period}", "이전 기간과 비교: {period}";
    cost_held(amount: &str, idle: &str) =
        "GPU time that was held cost {amount}, of which {idle} was idle-held",
        "점유된 GPU 시간의 비용은 {amount}이며 그중 유휴점유는 {idle}입니다";
    unpriced(hours: f64) =
        "no price applies to {hours:.2} GPU-hours that were held",
        "점유된 {hours:.2} GPU 시간에는 적용되는 가격이 없습니다";
    ask_first(owner: &str) = "ask {owner} first", "먼저 {owner} 님께 확인하세요";
    not_by_login(owner: &str) =
        "{owner} is known from the process, not from a login: decide first",
        "{owner}: 로그인이 아니라 프로세스에서 알아낸 이름입니다. 먼저 판단하세요";
    nobody_idle(at: &str) =
        "no GPU was held without use at {at}",
        "{at}에는 GPU를 잡고 쓰지 않는 사람이 없었습니다";
    idle_holders(util: u8, memory: u64, at: &str) =
        "GPUs under {util} % utilisation with over {memory} MB held at {at}; idle for: since the GPU was last active",
        "마지막 틱({at})에 사용률 {util}% 미만, {memory} MB 초과 점유 상태인 GPU입니다. 유휴 시간: 마지막 실가동 이후";
    based_on(buffered: f64, rest: f64) =
        "{buffered:.1}% of the observed time is based on the driver's own samples, {rest:.1}% on one reading per tick",
        "관측 시간의 {buffered:.1}%는 드라이버 자체 샘플에, {rest:.1}%는 틱마다 한 번 읽은 값에 근거합니다";
    energy_share(share: f64) =
        "energy is known for {share:.1}% of the observed time",
        "에너지는 관측 시간의 {share:.1}%에 대해 알려져 있습니다";
    states(util: u8, memory: u64) =
        "active: utilisation at or over {util} %; idle-held: under it while processes hold over {memory} MB; truly-idle: the rest",
        "실가동: 사용률 {util}% 이상. 유휴점유: 사용률이 그보다 낮고 프로세스가 {memory} MB 넘게 점유. 완전유휴: 그 외";
    observed_part(share: &str, capacity: &str, gap: &str) =
        "observed {share} of {capacity} GPU-hours; {gap} GPU-hours are gaps, which no share counts",
        "전체 {capacity} GPU 시간 중 {share}를 관측했습니다. {gap} GPU 시간은 공백이며 어떤 비율에도 들어가지 않습니다";
    /// The values are HTML: the caller escapes them, and inserts the sentence as it is.
    unused_gpus(idle_held: &str, truly_idle: &str, gpus: &str, samples: &str) =
        "On average {idle_held} GPUs were held without use and {truly_idle} were free, of {gpus} seen in the window. Samples: {samples}",
        "평균적으로 GPU {idle_held}장은 잡힌 채 쓰이지 않았고, {truly_idle}장은 비어 있었습니다 (전체 {gpus}장). 샘플: {samples}";
    waited_minutes(minutes: i64) = ", who waited {minutes} min", " (기다린 시간 {minutes}분)";
    waited_hours(hours: i64) = ", who waited {hours} h", " (기다린 시간 {hours}시간)";
    /// Length of the buckets of a chart.
    per_minutes(minutes: i64) = "in steps of {minutes} min", "{minutes}분 단위";
    /// Label of the row for the hidden rows of a list.
    rest(count: usize) = "{count} more (--top shows them)", "그 외 {count}건 (--top으로 더 보기)";
    gpus_left_out(count: usize) =
        "{count} more GPUs are not shown (--gpu chooses).", "GPU {count}장은 생략했습니다 (--gpu로 선택).";
    people_left_out(count: usize) =
        "{count} more people are not shown (--user chooses).", "사용자 {count}명은 생략했습니다 (--user로 선택).";
    many_overlap(count: usize) =
        "{count} sessions overlap others in their row.", "세션 {count}건은 같은 줄의 다른 세션과 겹칩니다.";
    one_overlaps(count: usize) =
        "{count} session overlaps another in its row.", "세션 {count}건은 같은 줄의 다른 세션과 겹칩니다.";
    /// Note for a chart with merged sessions.
    sessions_merged(all: usize, shown: usize) =
        "{all} sessions in {shown} bars: short ones of one person on one GPU are drawn as one.",
        "세션 {all}건을 막대 {shown}개로 표시: 같은 GPU에서 같은 사용자의 짧은 세션은 하나로 그립니다.";
    /// Note about the columns that a table does not show.
    columns_left_out(count: usize) =
        "{count} more columns of GPUs and people (--top shows them, --csv has all).",
        "GPU와 사용자 열 {count}개는 생략했습니다 (--top으로 더 보기, --csv에는 모두 있음).";
}

pub(super) fn note(page: &Page<'_>, note: &Note, language: Language) -> String {
    let fixed = match note {
        Note::Widened { asked } => return widened(&page.between(*asked, " to "), language),
        Note::Damaged { records } => return damaged((*records).into(), language),
        Note::DamagedRows { rows } => return damaged_rows((*rows).into(), language),
        Note::Overlap { micros } => return overlap(micros.hours(), language),
        Note::OldLeftOut { ticks } => return old_left_out(*ticks, language),
        Note::Unbalanced { gpus } => {
            let gpus = gpus.iter().map(|gpu| sanitize(gpu.as_str()));
            return unbalanced(&gpus.collect::<Vec<_>>().join(", "), language);
        }
        Note::Mixed => MIXED,
        Note::SessionsByFile => SESSIONS_BY_FILE,
        Note::GraphicsLeftOut => GRAPHICS_LEFT_OUT,
    };
    fixed.of(language).to_owned()
}

/// Says who decides before a process is stopped.
pub(super) fn decide(page: &Page<'_>, hold: &Hold, language: Language) -> String {
    if hold.has_exited() {
        let label = match is_instance(page, hold) {
            true => EXITED_ON_INSTANCE,
            false => EXITED,
        };
        return label.of(language).to_owned();
    }
    match (hold.owner.as_deref().map(sanitize), hold.by_login) {
        (Some(owner), true) => ask_first(&owner, language),
        (Some(owner), false) => not_by_login(&owner, language),
        (None, _) => NO_OWNER.of(language).to_owned(),
    }
}

/// Says how much was observed, with numbers as `show` writes them by their keys; `None` without any capacity. For HTML, `show`
/// returns escaped text; the words around the numbers need no escaping.
pub(super) fn observed(
    report: &Report,
    language: Language,
    show: impl Fn(&str, &Cell) -> String,
) -> Option<String> {
    let covered = &report.coverage;
    let share = show("observed_share", &Cell::Share(covered.share()?));
    let hours = |key, time: Micros| show(key, &Cell::Hours(time.hours()));
    let capacity = hours("capacity_hours", covered.capacity);
    let gap = hours("gap_hours", covered.gap);
    Some(observed_part(&share, &capacity, &gap, language))
}

/// Says since when there is a history, if that is after the beginning of the window.
pub(super) fn began_late(page: &Page<'_>, language: Language) -> Option<String> {
    let began = page.report.began_late()?;
    Some(history_begins(&page.long(began), language))
}

/// Title of the list of holders that do not use their GPU.
pub(super) fn held_without_use(report: &Report) -> Label {
    match report.is_fresh() {
        true => HOLDERS,
        false => HOLDERS_THEN,
    }
}

/// Explains which holders do not use their GPU, or says that there are none.
pub(super) fn holders_are(page: &Page<'_>, now: &Now, language: Language) -> String {
    let (at, thresholds) = (page.short(now.at), &page.report.thresholds);
    match page.report.idle_now().is_empty() {
        true => nobody_idle(&at, language),
        false => {
            let util = thresholds.active_util.get();
            idle_holders(util, thresholds.held_mb, &at, language)
        }
    }
}

/// Explains the requests that were not granted at once, and names those whose unused GPUs blocked them.
pub(super) fn refused_lines(refused: &Refused, top: usize, language: Language) -> Vec<String> {
    let rows = refused.in_the_way.iter().take(top);
    let rows = rows.map(|row| in_the_way(row, language));
    let nobody = refused.in_the_way.is_empty().then_some(NONE_IN_THE_WAY);
    let nobody = nobody.map(|words| words.of(language).to_owned());
    let means = REFUSED_MEANS.of(language).to_owned();
    std::iter::once(means).chain(rows).chain(nobody).collect()
}

/// Says how much of the observed time rests on the driver's own samples; `None` without own ticks.
pub(super) fn basis(report: &Report, language: Language) -> Option<String> {
    let covered = &report.coverage;
    let buffered = covered.buffered.hours() / covered.observed.hours() * 100.0;
    let is_own = report.all.observed() > Micros(0);
    is_own.then(|| based_on(buffered, 100.0 - buffered, language))
}

/// Says for how much of the time the energy is known; `None` if it is known for all of it.
pub(super) fn energy_known(report: &Report, language: Language) -> Option<String> {
    let (known, observed) = (report.all.energy_known, report.all.observed());
    if known == Micros(0) {
        return Some(NO_ENERGY.of(language).to_owned());
    }
    let share = (known.hours() / observed.hours() * 100.0).min(100.0);
    (known < observed).then(|| energy_share(share, language))
}

/// Formats a sentence about a person whose idle-held GPUs blocked another's request.
fn in_the_way(row: &BlockRow, language: Language) -> String {
    let gpu = gpu_name(row.index, &row.gpu, "GPU ");
    let (holder, requester, number) = (sanitize(&row.holder), sanitize(&row.requester), row.times);
    let times = match number {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let waited = match row.waited.as_mins() {
        0 => String::new(),
        minutes @ 1..120 => waited_minutes(minutes, language),
        minutes => waited_hours(minutes / 60, language),
    };
    language.pick(
        format!("{holder}'s idle-held {gpu} blocked {requester} {times}{waited}"),
        format!(
            "{holder}의 유휴점유 {gpu} 때문에 {requester} 사용자가 {number}번 받지 못함{waited}"
        ),
    )
}

/// Explains the states with the thresholds of this report.
pub(super) fn rule(report: &Report, language: Language) -> String {
    let thresholds = &report.thresholds;
    states(thresholds.active_util.get(), thresholds.held_mb, language)
}

/// The index of a GPU behind a prefix, or its UUID.
pub(crate) fn gpu_name(index: Option<u32>, gpu: &GpuUuid, prefix: &str) -> String {
    index.map_or_else(|| gpu.to_string(), |index| format!("{prefix}{index}"))
}

/// The name of a host with its environment and its driver.
pub(super) fn host(host: &Host) -> String {
    let driver = host.driver.as_deref();
    let driver = driver.map_or_else(String::new, |driver| format!(", driver {driver}"));
    sanitize(&format!("{} ({}{driver})", host.name, host.environment))
}

/// Formats a PID for a table.
pub(super) fn pid(hold: &Hold) -> String {
    hold.pid
        .map_or_else(|| "?".to_owned(), |pid| pid.to_string())
}

/// Reports whether a process is on a MIG instance.
fn is_instance(page: &Page<'_>, hold: &Hold) -> bool {
    let mut gpus = page.report.gpus.iter();
    gpus.any(|gpu| gpu.gpu == hold.gpu && gpu.parent.is_some())
}

/// Commands to inspect and to stop a holder.
pub(super) struct Commands {
    pub look: String,
    pub stop: Option<String>,
}

impl Commands {
    pub(super) fn labelled(self) -> impl Iterator<Item = (Label, String)> {
        std::iter::once((LOOK, self.look)).chain(self.stop.map(|stop| (STOP, stop)))
    }
}

/// Returns the commands that a report proposes for a holder; none for one that has been idle only for a short time.
pub(super) fn advice(page: &Page<'_>, hold: &Hold) -> Option<Commands> {
    let is_long = hold.idle.is_none_or(|idle| idle.is_long(page.last()));
    commands(page, hold).filter(|_| is_long)
}

/// Returns the commands for a holder; `None` if it may have exited since. Only a reset frees the memory of a process that has
/// exited: its PID may belong to another one by now. A MIG instance cannot be reset without the other instances of its GPU,
/// so there is no command for it.
pub(super) fn commands(page: &Page<'_>, hold: &Hold) -> Option<Commands> {
    let pid = hold
        .pid
        .filter(|_| hold.current && page.report.is_fresh())?;
    let gpu = gpu_name(hold.index, &hold.gpu, "");
    if hold.has_exited() {
        return Some(Commands {
            look: format!("gua explain {gpu}; fuser -v /dev/nvidia*"),
            stop: (!is_instance(page, hold)).then(|| format!("nvidia-smi --gpu-reset -i {gpu}")),
        });
    }
    Some(Commands {
        look: format!("gua explain {gpu}; ps -o user,etime,args -p {pid}"),
        stop: Some(format!("kill {pid}")),
    })
}

/// Caption of a table of the page, by its id.
pub(super) fn caption(id: &str) -> Option<Label> {
    Some(match id {
        "holders-table" => Label(
            "Holders of idle GPUs, the longest idle first",
            "쓰이지 않는 GPU의 점유자 (오래 쉰 순)",
        ),
        "now-table" => Label(
            "State of each GPU at the last tick",
            "마지막 틱의 GPU별 상태",
        ),
        "people-table" => Label("Hours and energy of each person", "사용자별 시간과 에너지"),
        "gpus-table" => Label("Hours by state of each GPU", "GPU별 상태 시간"),
        "past-table" => Label(
            "Processes that held a GPU without use",
            "쓰지 않고 GPU를 점유한 프로세스",
        ),
        "gaps-table" => Label("Unobserved periods, the largest first", "관측 공백 (긴 순)"),
        "energy-table" => Label("Hours and energy of each state", "상태별 시간과 에너지"),
        "in-vain-table" => Label(
            "Idle-held GPUs that blocked a request",
            "요청을 막은 유휴점유 GPU",
        ),
        "by-table" => Label("The table of --by", "--by 표"),
        "costs-table" => Label("Costs of each person", "사용자별 비용"),
        "compare-table" => Label("This period and the one before", "이번 기간과 이전 기간"),
        "sessions" => Label("The longest sessions", "가장 긴 세션"),
        _ => return None,
    })
}

/// Title of the table of `--by`.
pub(super) fn by(by: By) -> Label {
    match by {
        By::User => Label("By person", "사용자별"),
        By::Gpu => Label("By GPU", "GPU별"),
        By::Day => Label("By day", "일별"),
        By::Hour => Label("By hour of the day", "시간대별"),
        By::Week => Label("By week", "주별"),
        By::Month => Label("By month", "월별"),
        By::State => Label("By state", "상태별"),
        By::Group => Label("By group", "그룹별"),
        By::Project => Label("By project", "프로젝트별"),
        By::Job => Label("By job", "작업별"),
        By::Pod => Label("By pod", "파드별"),
        By::Container => Label("By container", "컨테이너별"),
        By::Idle => HOLDERS,
    }
}

/// Name of a calendar unit as the resolution of time.
pub(super) fn per(unit: CalendarUnit, language: Language) -> &'static str {
    let label = match unit {
        CalendarUnit::Hour => Label("by hour", "시간별"),
        CalendarUnit::Day => Label("by day", "일별"),
        CalendarUnit::Week => Label("by week", "주별"),
        CalendarUnit::Month => Label("by month", "월별"),
    };
    label.of(language)
}
