//! The published JSON schemas, generated from the document types. `docs/schema` has them as files, and a test compares.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::alert::{
    ALERT, ALERT_HISTORY, ALERTS, AlertDocument, AlertHistoryDocument, AlertsDocument,
};
use crate::explain::json::{ExplainDocument, SCHEMA as EXPLAIN};
use crate::listing::{AVAILABLE, AvailableDocument, CLAIMS, ClaimsDocument, LIST, ListDocument};
use crate::me::{MeDocument, SCHEMA as ME};
use crate::quota::{QuotaDocument, SCHEMA as QUOTA};
use crate::report::json::{ReportDocument, SCHEMA as REPORT};
use crate::report::plot::{PlotDocument, SCHEMA as PLOT};
use crate::runs::{RunsDocument, SCHEMA as RUNS};
use crate::sample::{SCHEMA as SAMPLE, SampleDocument};
use crate::statement::StatementDocument;

/// Every document of this crate with its name, as in `docs/schema/NAME.json`.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        named::<AlertDocument<'_>>(ALERT),
        named::<AlertHistoryDocument>(ALERT_HISTORY),
        named::<AlertsDocument>(ALERTS),
        named::<AvailableDocument>(AVAILABLE),
        named::<ClaimsDocument>(CLAIMS),
        named::<ExplainDocument>(EXPLAIN),
        named::<ListDocument>(LIST),
        named::<MeDocument>(ME),
        named::<PlotDocument<'_>>(PLOT),
        named::<QuotaDocument>(QUOTA),
        named::<ReportDocument>(REPORT),
        named::<RunsDocument>(RUNS),
        named::<SampleDocument>(SAMPLE),
        named::<StatementDocument>("gua.statement.v1"),
    ]
}

/// The schema of a document with its name as `$id`.
#[must_use]
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
