//! Costs of a report as sentences and tables.

use gua_model::Micros;
use gua_model::price::{Costs, Money};

use super::{Page, labels};
use crate::language::Language;
use crate::table::{Cell, Header, Table, table};

/// One sentence for each currency, and one for time without a price.
pub(super) fn sentences(costs: &Costs, language: Language) -> Vec<String> {
    let amount = |money: Money, currency: &str| format!("{:.2} {currency}", money.units());
    let each = costs.currencies.iter().map(|cost| {
        let held = amount(cost.held, &cost.currency);
        labels::cost_held(&held, &amount(cost.idle_held, &cost.currency), language)
    });
    let unpriced = costs.unpriced;
    let unpriced = (unpriced > Micros(0)).then(|| labels::unpriced(unpriced.hours(), language));
    each.chain(unpriced).collect()
}

/// Costs of each person, the highest in the first currency first.
pub(super) fn people(page: &Page<'_>, costs: &Costs) -> Table {
    let people = &page.report.people;
    let mut table = table!(person in people => "user" as "charged to" => person.name.clone(),);
    add_columns(&mut table, costs);
    let amounts = |row: &Vec<Cell>| row.iter().filter_map(Cell::measure).sum::<f64>();
    table.rows.retain(|row| amounts(row) > 0.0);
    table
        .rows
        .sort_by(|one, other| amounts(other).total_cmp(&amounts(one)));
    table
}

/// Adds a column for each currency to a table whose first column is the name of a person.
pub(super) fn add_columns(table: &mut Table, costs: &Costs) {
    for cost in &costs.currencies {
        let key = format!("cost_{}", cost.currency.to_lowercase());
        table.columns.push(Header::new(key, cost.currency.clone()));
        for row in &mut table.rows {
            let name = row.first().map(Cell::exact).unwrap_or_default();
            let cell = cost.people.get(&name);
            row.push(cell.map_or(Cell::Missing, |money| Cell::Money(money.units())));
        }
    }
}

/// Costs of one person's charged hours, with their currencies.
pub(crate) fn costs_of_person<'c>(costs: Option<&'c Costs>, name: &str) -> Vec<(&'c str, Money)> {
    let currencies = costs.into_iter().flat_map(|costs| &costs.currencies);
    currencies
        .filter_map(|cost| Some((cost.currency.as_str(), *cost.people.get(name)?)))
        .collect()
}
