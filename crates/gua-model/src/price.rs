//! Prices of GPU time by model and period, and the costs of a report.
//!
//! Of the prices in the configuration, the first that matches a GPU at a given time applies, so special prices must precede
//! general ones. A GPU costs its price while it is held. People pay for their charged hours, which
//! add up to the time of the GPUs. Amounts are whole millionths of a currency until they are shown.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::calendar::start_of_day;
use crate::owner::is_match;
use crate::period::Period;
use crate::report::Report;
use crate::state::{RollUp, State};
use crate::unit::{Micros, float};

/// A price of one GPU-hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    pub per_gpu_hour: Money,
    pub currency: String,
    /// Pattern of the GPU's model; `None` for every model.
    pub model: Option<String>,
    /// First day to which it applies.
    pub from: Option<Date>,
    /// First day to which it no longer applies.
    pub until: Option<Date>,
}

/// An amount of a currency, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Money(pub u64);

impl Money {
    const PER_UNIT: u64 = 1_000_000;

    /// Parses a decimal number with up to six decimals.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 6 {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(Self::PER_UNIT)?;
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        whole.checked_add(part).map(Self)
    }

    /// The amount in units of the currency, for display.
    pub fn units(self) -> f64 {
        float(self.0) / float(Self::PER_UNIT)
    }

    /// Price of some GPU time.
    fn of(self, time: Micros) -> Self {
        const HOUR: u128 = 3_600 * Micros::PER_SECOND as u128;
        let amount = u128::from(self.0) * u128::from(time.0) / HOUR;
        Self(u64::try_from(amount).unwrap_or(u64::MAX))
    }

    fn add(&mut self, more: Self) {
        self.0 = self.0.saturating_add(more.0);
    }
}

impl fmt::Display for Money {
    /// The shortest number that [`Money::parse`] reads as this amount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / Self::PER_UNIT, self.0 % Self::PER_UNIT);
        let part = format!("{part:06}");
        match part.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part:0<2}"),
        }
    }
}

impl Price {
    fn applies(&self, model: Option<&str>, period: Period, zone: &TimeZone) -> bool {
        let start = |date: Date| start_of_day(date, zone).unwrap_or(Timestamp::MAX);
        let matches = |pattern: &String| model.is_some_and(|model| is_match(pattern, model));
        self.model.as_ref().is_none_or(matches)
            && self.from.is_none_or(|from| start(from) <= period.from())
            && self.until.is_none_or(|until| period.to() <= start(until))
    }
}

/// Returns the price of a GPU model in a period that [`periods`] returned.
pub fn price<'p>(
    prices: &'p [Price],
    model: Option<&str>,
    period: Period,
    zone: &TimeZone,
) -> Option<&'p Price> {
    prices
        .iter()
        .find(|price| price.applies(model, period, zone))
}

/// Cuts a window where a price begins or ends to apply.
pub fn periods(window: Period, prices: &[Price], zone: &TimeZone) -> Vec<Period> {
    let dates = prices.iter().flat_map(|price| [price.from, price.until]);
    let cuts = dates
        .flatten()
        .filter_map(|date| start_of_day(date, zone))
        .filter(|cut| window.from() < *cut && *cut < window.to());
    let mut ends: Vec<Timestamp> = cuts.chain([window.to()]).collect();
    ends.sort();
    ends.dedup();
    let mut from = window.from();
    let period = |to| Period::new(std::mem::replace(&mut from, to), to);
    ends.into_iter().map(period).collect()
}

/// Costs of the GPU time of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// One entry for each currency.
    pub currencies: Vec<Cost>,
    /// Time in which a GPU was held and no price applied.
    pub unpriced: Micros,
}

/// Costs in one currency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub currency: String,
    /// Time in which GPUs were held.
    pub held: Money,
    /// Of that, idle-held time.
    pub idle_held: Money,
    /// Charged hours of each person.
    pub people: BTreeMap<String, Money>,
}

impl Costs {
    /// Adds the time of a report, all of which has this price.
    pub fn add(&mut self, price: Option<&Price>, report: &Report) {
        let all = &report.all;
        let idle = all.of_class(RollUp::IdleHeld).micros;
        let active = all.of_class(RollUp::Active).micros;
        let held = active + idle + all.state(State::HeldUnknown).micros;
        let Some(price) = price else {
            self.unpriced += held;
            return;
        };
        let mut known = self.currencies.iter();
        let place = known.position(|cost| cost.currency == price.currency);
        let place = place.unwrap_or_else(|| {
            self.currencies.push(Cost {
                currency: price.currency.clone(),
                ..Cost::default()
            });
            self.currencies.len() - 1
        });
        let cost = &mut self.currencies[place];
        cost.held.add(price.per_gpu_hour.of(held));
        cost.idle_held.add(price.per_gpu_hour.of(idle));
        for person in &report.people {
            let Some(charged) = person.sums.charged_time() else {
                continue;
            };
            let sum = cost.people.entry(person.name.clone()).or_default();
            sum.add(price.per_gpu_hour.of(charged));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn price_of(
        amount: &str,
        model: Option<&str>,
        from: Option<Date>,
        until: Option<Date>,
    ) -> Price {
        Price {
            per_gpu_hour: Money::parse(amount).unwrap(),
            currency: "EUR".to_owned(),
            model: model.map(str::to_owned),
            from,
            until,
        }
    }

    #[test]
    fn amounts_are_decimal_numbers_of_up_to_six_decimals() {
        for (text, expected) in [
            ("2", Some((2_000_000, "2"))),
            ("2.5", Some((2_500_000, "2.50"))),
            ("0.012345", Some((12_345, "0.012345"))),
            ("0", Some((0, "0"))),
            ("2.", None),
            (".5", None),
            ("-1", None),
            ("1e3", None),
            ("0.1234567", None),
            ("99999999999999999999", None),
        ] {
            let found = Money::parse(text);
            let shown = found.map(|money| (money.0, money.to_string()));
            let expected = expected.map(|(money, shown)| (money, shown.to_owned()));
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn the_first_price_that_matches_applies_and_windows_are_cut_where_prices_change() {
        let zone = TimeZone::UTC;
        let prices = [
            price_of("3", Some("*H100*"), None, Some(date(2026, 11, 1))),
            price_of("2", Some("*H100*"), None, None),
            price_of("1", None, Some(date(2026, 10, 1)), None),
        ];
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let window = Period::new(at("2026-09-15T00:00:00Z"), at("2026-11-15T00:00:00Z"));
        let parts = periods(window, &prices, &zone);
        let starts = parts.iter().map(|part| part.from().to_string());
        assert_eq!(
            starts.collect::<Vec<_>>(),
            [
                "2026-09-15T00:00:00Z",
                "2026-10-01T00:00:00Z",
                "2026-11-01T00:00:00Z"
            ]
        );
        let amount = |part: usize, model: Option<&str>| {
            let price = price(&prices, model, parts[part], &zone);
            price.map(|price| price.per_gpu_hour.to_string())
        };
        assert_eq!(amount(0, Some("NVIDIA H100")).as_deref(), Some("3"));
        assert_eq!(amount(2, Some("NVIDIA H100")).as_deref(), Some("2"));
        assert_eq!(amount(0, Some("RTX A6000")), None);
        assert_eq!(amount(1, Some("RTX A6000")).as_deref(), Some("1"));
        assert_eq!(amount(1, None).as_deref(), Some("1"));
    }

    #[test]
    fn time_costs_its_part_of_an_hour() {
        let quarter = Micros::from_secs(900);
        assert_eq!(Money::parse("2.50").unwrap().of(quarter), Money(625_000));
        assert_eq!(Money(1).of(quarter), Money(0));
    }
}
