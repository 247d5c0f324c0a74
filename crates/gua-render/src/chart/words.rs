//! The text in charts, in each language. Stable names, such as the keys of states, are defined elsewhere.

use gua_model::CalendarUnit;
use jiff::civil::Date;

use crate::language::{Label, Language, labels, phrases};

labels! {
    NOTHING = "Nothing was observed in this window.", "이 구간에는 관측된 데이터가 없습니다.";
    NOT_HELD = "Nobody held a GPU in this window.", "이 구간에는 GPU를 점유한 사용자가 없습니다.";
    // Explains which of several overlapping sessions a character shows.
    USE_FIRST = "Where sessions overlap, one in use is shown.", "세션이 겹치면 사용 중인 세션을 표시합니다.";
    NO_DATA = "no data", "데이터 없음";
    SESSIONS = "sessions", "세션 수";
    SHARE_OF_TIME = "share of GPU time", "GPU 시간 비율";
    TIME = "time", "시각";
    LOCAL_TIME = "local time", "현지 시각";
    HOUR_OF_DAY = "hour of the day", "시간대";
    HOUR_OF_WEEK = "hour of the week", "요일과 시간대";
    QUIETEST = "quietest hours", "가장 한가한 시간대";
}

phrases! {
    gpu_hours_per_minutes(minutes: i64) = "GPU-hours per {minutes} min", "{minutes}분당 GPU 시간";
    others(count: usize) = "others ({count})", "그 외 ({count})";
    idle_share(percent: &str) = "{percent} idle-held", "유휴점유 {percent}";
}

/// Message for a chart without held hours. In an unobserved window, it is unknown whether a GPU was held.
pub(crate) fn no_hours(observed: bool) -> Label {
    if observed { NOT_HELD } else { NOTHING }
}

pub(crate) fn gpu_hours_per(unit: CalendarUnit) -> Label {
    match unit {
        CalendarUnit::Hour => Label("GPU-hours per hour", "시간당 GPU 시간"),
        CalendarUnit::Day => Label("GPU-hours per day", "일별 GPU 시간"),
        CalendarUnit::Week => Label("GPU-hours per week", "주별 GPU 시간"),
        CalendarUnit::Month => Label("GPU-hours per month", "월별 GPU 시간"),
    }
}

impl Language {
    /// Names of the weekdays, Monday first.
    pub(crate) fn weekdays(self) -> [&'static str; 7] {
        self.pick(
            ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
            ["월", "화", "수", "목", "금", "토", "일"],
        )
    }

    pub(crate) fn day_long(self, date: Date) -> String {
        let place = usize::from(date.weekday().to_monday_zero_offset().unsigned_abs());
        let weekday = self.weekdays()[place];
        self.pick(
            format!("{weekday} {}", date.strftime("%-d %b %Y")),
            format!("{} ({weekday})", date.strftime("%Y년 %-m월 %-d일")),
        )
    }

    pub(crate) fn day_short(self, date: Date) -> String {
        date.strftime(self.pick("%-d %b", "%-m월 %-d일"))
            .to_string()
    }

    pub(crate) fn month_long(self, date: Date) -> String {
        date.strftime(self.pick("%b %Y", "%Y년 %-m월")).to_string()
    }

    pub(crate) fn month_short(self, date: Date) -> String {
        date.strftime(self.pick("%b", "%-m월")).to_string()
    }
}
