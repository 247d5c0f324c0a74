//! Hours of the day in which an alert sends nothing.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Time;

/// A part of every day in the local zone, such as `22:00-07:00`, which may include midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Whether a time of day is in the quiet hours. Their end is not.
    pub fn contains(&self, time: Time) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&time),
            false => time >= self.from || time < self.to,
        }
    }
}

impl FromStr for QuietHours {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let time = |text: &str| -> Result<Time, ()> {
            let (hour, minute) = text.split_once(':').ok_or(())?;
            let is_plain = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            if !is_plain(hour) || !is_plain(minute) {
                return Err(());
            }
            let (hour, minute) = (hour.parse().map_err(drop)?, minute.parse().map_err(drop)?);
            Time::new(hour, minute, 0, 0).map_err(drop)
        };
        let (from, to) = text.split_once('-').ok_or(())?;
        let (from, to) = (time(from)?, time(to)?);
        // All day would be an alert that never sends anything.
        if from == to {
            return Err(());
        }
        Ok(Self { from, to })
    }
}

impl fmt::Display for QuietHours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        let (from, to) = (from.strftime("%H:%M"), to.strftime("%H:%M"));
        write!(out, "{from}-{to}")
    }
}
