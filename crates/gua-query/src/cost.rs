//! Costs of the GPU time of a report, by the prices of the configuration.
//!
//! For each price, a report is requested of the GPUs and the part of the window to which it applies. Prices are settings of the
//! user who asks, so costs are computed from reports, and every [`Source`] can be used.

use gua_model::Period;
use gua_model::price::{Costs, Price, periods, price};
use gua_model::report::Report;

use crate::error::QueryError;
use crate::protocol::Source;
use crate::question::{Question, WindowEnd};

/// Returns the costs of a report; `None` without prices.
pub fn costs(
    source: &dyn Source,
    question: &Question,
    report: &Report,
    prices: &[Price],
) -> Result<Option<Costs>, QueryError> {
    if prices.is_empty() {
        return Ok(None);
    }
    let mut costs = Costs::default();
    let parts = periods(report.window, prices, &question.zone);
    for part in &parts {
        for (its_price, gpus) in by_price(report, *part, question, prices) {
            if parts.len() == 1 && gpus.len() == report.gpus.len() {
                costs.add(its_price, report);
                continue;
            }
            let of_part = Question {
                window: *part,
                end: match part.to() == report.window.to() {
                    true => question.end,
                    false => WindowEnd::Named,
                },
                gpus,
                cross: None,
                workloads: None,
                ..question.clone()
            };
            costs.add(its_price, &source.report(&of_part)?);
        }
    }
    Ok(Some(costs))
}

/// Groups the GPUs of a report by their price in a part of its window.
fn by_price<'p>(
    report: &Report,
    part: Period,
    question: &Question,
    prices: &'p [Price],
) -> Vec<(Option<&'p Price>, Vec<String>)> {
    let mut found: Vec<(Option<&Price>, Vec<String>)> = Vec::new();
    for gpu in &report.gpus {
        let its = price(prices, gpu.name.as_deref(), part, &question.zone);
        let uuid = gpu.gpu.to_string();
        match found.iter_mut().find(|(known, _)| *known == its) {
            Some((_, gpus)) => gpus.push(uuid),
            None => found.push((its, vec![uuid])),
        }
    }
    found
}
