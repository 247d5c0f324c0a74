//! The text in charts, in each language. Stable names, such as the keys of states, are defined elsewhere.

use gua_model::CalendarUnit;
use jiff::civil::{Date, Weekday};

use super::Shown;

/// Language of the text that a chart adds to its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    English,
    Korean,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Language {
    fn pick<T>(self, english: T, korean: T) -> T {
        match self {
            Language::English => english,
            Language::Korean => korean,
        }
    }

    pub(crate) fn state(self, state: Shown) -> &'static str {
        match state {
            Shown::Active => self.pick("active", "실가동"),
            Shown::IdleHeld => self.pick("idle-held", "유휴점유"),
            Shown::HeldUnknown => self.pick("held-unknown", "점유(사용률 미상)"),
            Shown::TrulyIdle => self.pick("truly-idle", "완전유휴"),
            Shown::Gap => self.pick("gap (not observed)", "관측 공백"),
        }
    }

    pub(crate) fn nothing(self) -> &'static str {
        self.pick(
            "Nothing was observed in this window.",
            "이 구간에는 관측된 데이터가 없습니다.",
        )
    }

    /// Message for a chart without held hours. In an unobserved window, it is unknown whether a GPU was held.
    pub(crate) fn no_hours(self, observed: bool) -> &'static str {
        if !observed {
            return self.nothing();
        }
        self.pick(
            "Nobody held a GPU in this window.",
            "이 구간에는 GPU를 점유한 사용자가 없습니다.",
        )
    }

    /// Explains which of several overlapping sessions a character shows.
    pub(crate) fn use_first(self) -> &'static str {
        self.pick(
            "Where sessions overlap, one in use is shown.",
            "세션이 겹치면 사용 중인 세션을 표시합니다.",
        )
    }

    pub(crate) fn no_data(self) -> &'static str {
        self.pick("no data", "데이터 없음")
    }

    pub(crate) fn gpu_hours(self) -> &'static str {
        self.pick("GPU-hours", "GPU 시간")
    }

    pub(crate) fn gpu_hours_per(self, unit: CalendarUnit) -> &'static str {
        match unit {
            CalendarUnit::Hour => self.pick("GPU-hours per hour", "시간당 GPU 시간"),
            CalendarUnit::Day => self.pick("GPU-hours per day", "일별 GPU 시간"),
            CalendarUnit::Week => self.pick("GPU-hours per week", "주별 GPU 시간"),
            CalendarUnit::Month => self.pick("GPU-hours per month", "월별 GPU 시간"),
        }
    }

    pub(crate) fn share_of_time(self) -> &'static str {
        self.pick("share of GPU time", "GPU 시간 비율")
    }

    pub(crate) fn others(self, count: usize) -> String {
        self.pick(format!("others ({count})"), format!("그 외 ({count})"))
    }

    pub(crate) fn idle_share(self, percent: &str) -> String {
        self.pick(
            format!("{percent} idle-held"),
            format!("유휴점유 {percent}"),
        )
    }

    pub(crate) fn time(self) -> &'static str {
        self.pick("time", "시각")
    }

    pub(crate) fn local_time(self) -> &'static str {
        self.pick("local time", "현지 시각")
    }

    pub(crate) fn hour_of_day(self) -> &'static str {
        self.pick("hour of the day", "시간대")
    }

    pub(crate) fn hour_of_week(self) -> &'static str {
        self.pick("hour of the week", "요일과 시간대")
    }

    pub(crate) fn quietest(self) -> &'static str {
        self.pick("quietest hours", "가장 한가한 시간대")
    }

    /// Names of the weekdays, Monday first.
    pub(crate) fn weekdays(self) -> [&'static str; 7] {
        self.pick(
            ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
            ["월", "화", "수", "목", "금", "토", "일"],
        )
    }

    fn weekday(self, day: Weekday) -> &'static str {
        let place = usize::try_from(day.to_monday_zero_offset()).unwrap_or(0);
        self.weekdays()[place]
    }

    pub(crate) fn day_long(self, date: Date) -> String {
        let (year, month, day) = (date.year(), date.month(), date.day());
        let weekday = self.weekday(date.weekday());
        self.pick(
            format!("{weekday} {day} {} {year}", month_name(date)),
            format!("{year}년 {month}월 {day}일 ({weekday})"),
        )
    }

    pub(crate) fn day_short(self, date: Date) -> String {
        let (month, day) = (date.month(), date.day());
        self.pick(
            format!("{day} {}", month_name(date)),
            format!("{month}월 {day}일"),
        )
    }

    pub(crate) fn month_long(self, date: Date) -> String {
        let (year, month) = (date.year(), date.month());
        self.pick(
            format!("{} {year}", month_name(date)),
            format!("{year}년 {month}월"),
        )
    }

    pub(crate) fn month_short(self, date: Date) -> String {
        let month = date.month();
        self.pick(month_name(date).to_owned(), format!("{month}월"))
    }
}

fn month_name(date: Date) -> &'static str {
    let place = usize::try_from(date.month() - 1).unwrap_or(0);
    MONTHS[place.min(11)]
}
