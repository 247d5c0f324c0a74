//! Selection of the rows of an export, from the words of its flags.

use gua_model::Period;
use gua_model::failure::Failure;
use gua_query::words::{moment, zone};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::run::{Ask, Edges, Format};
use crate::tables::What;

/// Time range and time zone as they are requested.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Start: a duration before now, or a date and time; `None` is the first tick.
    pub since: Option<String>,
    /// End; `None` is now.
    pub until: Option<String>,
    /// Name of the time zone; `None` is the local one.
    pub tz: Option<String>,
}

impl Ask {
    /// Returns the selection. With [`Edges::Whole`], the time range is extended to whole days, so that the file of a partial
    /// day never replaces that of a complete one. `now` is in the local time zone.
    pub fn new(
        what: What,
        format: Format,
        words: &Words,
        edges: Edges,
        now: &Zoned,
    ) -> Result<Self, Failure> {
        let zone = zone(words.tz.as_deref(), now.time_zone().clone())?;
        let now = now.timestamp();
        let bound =
            |flag: &'static str, text: &Option<String>| -> Result<Option<Timestamp>, Failure> {
                let text = text.as_deref();
                text.map(|text| Ok(moment(flag, text, &zone, now)?.at))
                    .transpose()
            };
        let from = bound("since", &words.since)?.unwrap_or(Timestamp::MIN);
        let to = bound("until", &words.until)?;
        if to.is_some_and(|to| to < from) {
            return Err(Failure::usage("the window ends before it begins"));
        }
        let until = to.unwrap_or(now).min(now);
        let window = Period::new(from.min(until), until);
        let window = match edges {
            Edges::Cut => window,
            Edges::Whole => whole_days(window, &zone, now),
        };
        Ok(Self {
            what,
            format,
            window,
            ends: to.is_some(),
            edges,
            zone,
        })
    }
}

fn whole_days(window: Period, zone: &TimeZone, now: Timestamp) -> Period {
    let start_of_day = |at: Timestamp| {
        let day = at.to_zoned(zone.clone()).start_of_day();
        day.map(|day| day.timestamp())
    };
    let (from, until) = (window.from(), window.to());
    let first = match from == Timestamp::MIN {
        true => from,
        false => start_of_day(from).unwrap_or(from),
    };
    let ends_inside = start_of_day(until).is_ok_and(|day| day != until);
    let next = until
        .to_zoned(zone.clone())
        .tomorrow()
        .and_then(|next| next.start_of_day());
    let last = match (ends_inside, next) {
        (true, Ok(next)) => next.timestamp().min(now),
        _ => until,
    };
    Period::new(first, last)
}
