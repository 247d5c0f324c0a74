//! The published JSON schemas, generated from the document types. `docs/schema` has them as files, and a test compares.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::report::{json, plot};
use crate::{alert, explain, listing, me, quota, runs, sample, statement};

/// Every document of this crate with its name, as in `docs/schema/NAME.json`.
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        named::<alert::AlertDocument<'_>>(alert::ALERT),
        named::<alert::AlertHistoryDocument>(alert::ALERT_HISTORY),
        named::<alert::AlertsDocument>(alert::ALERTS),
        named::<listing::AvailableDocument>(listing::AVAILABLE),
        named::<listing::ClaimsDocument>(listing::CLAIMS),
        named::<explain::json::ExplainDocument>(explain::json::SCHEMA),
        named::<listing::ListDocument>(listing::LIST),
        named::<me::MeDocument>(me::SCHEMA),
        named::<plot::PlotDocument>(plot::SCHEMA),
        named::<quota::PercentagesDocument>(quota::PERCENTAGES),
        named::<quota::QuotaDocument>(quota::SCHEMA),
        named::<json::ReportDocument>(json::SCHEMA),
        named::<runs::RunsDocument>(runs::SCHEMA),
        named::<sample::SampleDocument>(sample::SCHEMA),
        named::<statement::StatementDocument>("gua.statement.v1"),
    ]
}

/// The schema of a document with its name as `$id`.
pub fn named<Document: JsonSchema>(name: &'static str) -> (&'static str, Schema) {
    // Keys with nullable values are always present, hence required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Document>();
    schema.insert("$id".to_owned(), name.into());
    (name, schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        for (name, schema) in all() {
            gua_test::schema::assert_published(name, &crate::document::pretty(&schema));
        }
    }
}
