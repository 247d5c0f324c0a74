//! Timestamps as gpu-usage-audit writes them: text in UTC, with six decimals, or none if the fraction is zero.

use gua_model::sane;
use jiff::Timestamp;

/// Time of an old row, in microseconds since 1970. The text is kept if it differs from the one that gpu-usage-audit
/// would write.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    pub at_us: i64,
    pub written_as: Option<Box<str>>,
}

impl Stamp {
    /// Parses a text; `None` if it is not a time or has no UTC offset.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self::of(Self::micros(text)?, text))
    }

    /// The time of a text that was parsed before.
    pub fn of(at_us: i64, text: &str) -> Self {
        let usual = Timestamp::from_microsecond(at_us).map(old_text);
        Self {
            at_us,
            written_as: (usual.ok().as_deref() != Some(text)).then(|| text.into()),
        }
    }

    /// Parses a text and returns only the time.
    pub fn micros(text: &str) -> Option<i64> {
        Some(text.parse::<Timestamp>().ok()?.as_microsecond())
    }

    /// Text as written in the old file.
    pub fn text(&self) -> String {
        match &self.written_as {
            Some(text) => text.as_ref().to_owned(),
            None => old_text(sane::nearest(self.at_us)),
        }
    }
}

/// Formats a time as gpu-usage-audit writes and compares it. Text in this form sorts by time.
pub fn old_text(time: Timestamp) -> String {
    let form = match time.as_microsecond() % 1_000_000 {
        0 => "%Y-%m-%dT%H:%M:%S+00:00",
        _ => "%Y-%m-%dT%H:%M:%S%.6f+00:00",
    };
    time.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, usual: bool) {
        let stamp = Stamp::parse(text).unwrap();
        assert_eq!(stamp.written_as.is_none(), usual, "{text}");
        assert_eq!(stamp.text(), text);
    }

    #[test]
    fn a_time_reads_back_as_it_stood() {
        check("2026-05-11T00:00:00+00:00", true);
        check("2026-11-15T19:03:43.740726+00:00", true);
        check("2026-11-15T19:03:43.000001+00:00", true);
        check("1970-01-01T00:00:00+00:00", true);
        check("2026-11-15T19:03:43.000000+00:00", false);
        check("2026-11-15T19:03:43Z", false);
        check("2026-11-15T20:03:43+01:00", false);
        check("2026-11-15T19:03:43.5+00:00", false);
        check("2026-11-15T19:03:43.123456789+00:00", false);
    }

    #[test]
    fn the_same_moment_is_the_same_number_whatever_its_form() {
        let micros = |text| Stamp::parse(text).unwrap().at_us;
        assert_eq!(
            micros("2026-11-15T20:03:43+01:00"),
            micros("2026-11-15T19:03:43+00:00")
        );
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026-11-15",
            "2026-11-15T19:03:43",
            "1763233423",
        ] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}
