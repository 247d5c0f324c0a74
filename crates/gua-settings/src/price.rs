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
use serde_json::json;
use toml_edit::Value;

use crate::array::{Field, Mistakes, Row};
use crate::kind::{Home, Raw, kinds};
use crate::name::shown;
use crate::quota::{is_name, quoted};
use crate::table::PriceFields;

impl Row for Price {
    type Fields = PriceFields;
    const NOUN: &'static str = "price";

    fn of_table(fields: &PriceFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let Some(amount) = &fields.per_gpu_hour else {
            let message = "price: per_gpu_hour is missing; write per_gpu_hour = \"2.50 EUR\"";
            mistakes.push(start, message);
            return Vec::new();
        };
        let (from, until) = (value(&fields.from), value(&fields.until));
        if let (Some(first), Some(end)) = (from, until)
            && end <= first
        {
            mistakes.push(start, "price: it ends (until) before it begins (from)");
        }
        let price = |(per_gpu_hour, currency)| Price {
            per_gpu_hour,
            currency,
            model: value(&fields.model),
            from,
            until,
        };
        amount.value.clone().map(price).into_iter().collect()
    }

    fn is_same(&self, other: &Price) -> bool {
        (&self.model, self.from, self.until) == (&other.model, other.from, other.until)
    }

    fn to_table(&self) -> Vec<(&'static str, Value)> {
        let amount = ("per_gpu_hour", amount_text(self).into());
        let model = self.model.as_ref().map(|model| ("model", model.into()));
        let date = |key, date: Option<Date>| date.map(|date| (key, date.to_string().into()));
        let rest = [model, date("from", self.from), date("until", self.until)];
        std::iter::once(amount)
            .chain(rest.into_iter().flatten())
            .collect()
    }

    fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        let pairs = [
            ("per_gpu_hour", json!(amount_text(self))),
            ("model", json!(self.model)),
            ("from", json!(self.from.map(|date| date.to_string()))),
            ("until", json!(self.until.map(|date| date.to_string()))),
        ];
        let pairs = pairs.into_iter();
        pairs.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn value<T: Clone>(field: &Option<Field<T>>) -> Option<T> {
    field.as_ref()?.value.clone()
}

fn amount_text(price: &Price) -> String {
    format!("{} {}", price.per_gpu_hour, price.currency)
}

kinds! {
    /// Amount of money with its currency.
    PriceAmount: (Money, String), "an amount and a currency such as \"2.50 EUR\"",
        |raw, _| quoted(raw, parse_amount), |(money, currency)| format!("{money} {currency}").into();
    /// Pattern of a GPU's model.
    ModelPattern: String, "a model such as \"*H100*\"", |raw, _| quoted(raw, parse_model), |model| model.clone().into();
    /// A date.
    DateText: Date, "a date such as \"2026-01-01\"", |raw, _| quoted(raw, parse_date), |date| date.to_string().into();
}

fn parse_amount(text: &str) -> Result<(Money, String), String> {
    let parsed = text.split_once(' ').and_then(|(amount, currency)| {
        let is_currency = |text: &str| {
            (1..=8).contains(&text.chars().count()) && text.chars().all(char::is_alphabetic)
        };
        let amount = Money::parse(amount)?;
        is_currency(currency).then(|| (amount, currency.to_owned()))
    });
    parsed.ok_or_else(|| {
        let text = shown(text);
        format!("expected an amount and a currency such as \"2.50 EUR\", found `{text}`")
    })
}

fn parse_model(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{}` is not a model", shown(text))),
    }
}

fn parse_date(text: &str) -> Result<Date, String> {
    let date = text.parse().ok().filter(|_| text.len() == 10);
    date.ok_or_else(|| {
        format!(
            "expected a date such as \"2026-01-01\", found `{}`",
            shown(text)
        )
    })
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
