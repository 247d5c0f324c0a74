//! JSON output of `gua list`: builds a [`ListDocument`] from the rows of the table.

use gua_model::Sample;
use gua_probe::host::time::ticks_per_second;
use gua_render::listing::{LIST, ListDocument, ListEntry, ListedGpu, ListedHolder};

use super::row::Row;

/// `unread` is the reason why the claims could not be read.
#[must_use]
pub(super) fn document(sample: &Sample, rows: &[Row<'_>], unread: Option<&str>) -> ListDocument {
    let problems = sample.problems.iter().map(ToString::to_string);
    let entry = |row: &Row<'_>| {
        let claims = row.claims.iter().map(|claim| claim.listed.clone());
        let holder =
            |process: &&gua_model::Process| ListedHolder::new(process, sample, ticks_per_second());
        ListEntry {
            gpu: ListedGpu::new(row.index, row.gpu, &row.condition),
            claims: unread.is_none().then(|| claims.collect()),
            holders: row.holders.iter().map(holder).collect(),
        }
    };
    ListDocument {
        schema: LIST,
        at: sample.at,
        driver_version: sample.driver.version.clone().ok(),
        gpus: rows.iter().map(entry).collect(),
        problems: problems.chain(unread.map(str::to_owned)).collect(),
    }
}
