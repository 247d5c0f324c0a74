//! Prices of GPU time, `[[price]]`, for reports and statements.
//!
//! ```toml
//! [[price]]
//! per_gpu_hour = "2.50 EUR"
//! model = "*H100*"      # without it, every model
//! from = "2026-01-01"   # first day to which it applies
//! until = "2027-01-01"  # first day to which it no longer applies
//! ```

use gua_model::price::{Money, Price};
use jiff::civil::Date;

use crate::array::{Mistakes, Pair, Row};
use crate::kind::{Home, Parsed, Raw, texts};
use crate::name::shown;
use crate::quota::is_name;
use crate::table::PriceFields;

impl Row for Price {
    type Fields = PriceFields;
    const NOUN: &'static str = "price";

    fn of_table(fields: &PriceFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let needed = [("per_gpu_hour", fields.per_gpu_hour.at, "\"2.50 EUR\"")];
        mistakes.require::<PriceFields>(start, &needed);
        let (from, until) = (fields.from.value, fields.until.value);
        if let (Some(first), Some(end)) = (from, until)
            && end <= first
        {
            mistakes.push(start, "price: it ends (until) before it begins (from)");
        }
        let price = |(per_gpu_hour, currency)| Price {
            per_gpu_hour,
            currency,
            model: fields.model.value.clone(),
            from,
            until,
        };
        let amount = fields.per_gpu_hour.value.clone();
        amount.map(price).into_iter().collect()
    }

    fn is_same(&self, other: &Price) -> bool {
        (&self.model, self.from, self.until) == (&other.model, other.from, other.until)
    }

    fn pairs(&self) -> Vec<Pair> {
        let date = |date: Option<Date>| date.map(|date| date.to_string());
        let amount = format!("{} {}", self.per_gpu_hour, self.currency);
        vec![
            Pair::new("per_gpu_hour", amount),
            Pair::new("model", self.model.clone()),
            Pair::new("from", date(self.from)),
            Pair::new("until", date(self.until)),
        ]
    }
}

texts! {
    /// Amount of money with its currency.
    PriceAmount: (Money, String), "an amount and a currency such as \"2.50 EUR\"",
        |text| parse_amount(text).ok_or(None);
    /// Pattern of a GPU's model.
    ModelPattern: String, "a model such as \"*H100*\"", parse_model;
    /// A date.
    DateText: Date, "a date such as \"2026-01-01\"",
        |text| text.parse().ok().filter(|_| text.len() == 10).ok_or(None);
}

fn parse_amount(text: &str) -> Option<(Money, String)> {
    let (amount, currency) = text.split_once(' ')?;
    let is_short = (1..=8).contains(&currency.chars().count());
    let is_currency = is_short && currency.chars().all(char::is_alphabetic);
    let amount = Money::parse(amount)?;
    is_currency.then(|| (amount, currency.to_owned()))
}

fn parse_model(text: &str) -> Parsed<String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(Some(format!("`{}` is not a model", shown(text)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array;

    /// The prices of a file, and its mistakes.
    fn read(text: &str) -> (Vec<Price>, Vec<String>) {
        let document = toml::de::DeTable::parse(text).unwrap();
        let mut mistakes = Mistakes::default();
        let value = document.get_ref().get("price").unwrap();
        let rows = array::rows::<Price>(value, &Home(None), &mut mistakes).unwrap();
        let prices = rows.into_iter().map(|(price, _)| price).collect();
        let messages = mistakes.0.into_iter().map(|(_, message)| message);
        (prices, messages.collect())
    }

    #[test]
    fn a_price_has_an_amount_a_currency_a_model_and_a_period() {
        let text = "[[price]]\nper_gpu_hour = \"2.50 EUR\"\nmodel = \"*H100*\"\nfrom = \"2026-01-01\"\nuntil = \"2027-01-01\"\n";
        let (prices, mistakes) = read(text);
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(prices[0].per_gpu_hour, Money(2_500_000));
        assert_eq!(prices[0].currency, "EUR");
        let written = prices[0].to_table().into_iter();
        let written: String = written
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        assert_eq!(format!("[[price]]\n{written}"), text);
    }

    #[test]
    fn a_mistake_is_reported_and_its_price_left_out() {
        for (text, expected) in [
            ("model = \"A100\"", "per_gpu_hour is missing"),
            ("per_gpu_hour = 2.5", "expected a text in quotes"),
            ("per_gpu_hour = \"2.5\"", "an amount and a currency"),
            ("per_gpu_hour = \"-2 EUR\"", "an amount and a currency"),
            (
                "per_gpu_hour = \"2 EUR\"\nfrom = \"2026-13-01\"",
                "expected a date",
            ),
            (
                "per_gpu_hour = \"2 EUR\"\nfrom = \"2026-02-01\"\nuntil = \"2026-02-01\"",
                "before it begins",
            ),
            ("per_gpu_hour = \"2 EUR\"\nprice = 3", "unknown key `price`"),
        ] {
            let (prices, mistakes) = read(&format!("[[price]]\n{text}\n"));
            assert!(prices.is_empty(), "{text}");
            let found = mistakes.iter().any(|one| one.contains(expected));
            assert!(found, "{text}: {mistakes:?}");
        }
    }
}
