//! The published JSON schemas, generated from the document types. `docs/schema` has them as files, and a test compares.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::listing::{AVAILABLE, AvailableDocument, CLAIMS, ClaimsDocument, LIST, ListDocument};
use crate::quota::{QuotaDocument, SCHEMA as QUOTA};
use crate::report::json::{ReportDocument, SCHEMA as REPORT};
use crate::report::plot::{PlotDocument, SCHEMA as PLOT};
use crate::statement::StatementDocument;

/// Every document of this crate with its name, as in `docs/schema/NAME.json`.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        named::<AvailableDocument>(AVAILABLE),
        named::<ClaimsDocument>(CLAIMS),
        named::<ListDocument>(LIST),
        named::<PlotDocument<'_>>(PLOT),
        named::<QuotaDocument>(QUOTA),
        named::<ReportDocument>(REPORT),
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

    /// `GUA_WRITE_SCHEMAS=1` writes the files instead of comparing them.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that rewrites its own expectations"
    )]
    fn the_published_schemas_are_those_of_the_types() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
        for (name, schema) in all() {
            let path = format!("{directory}/{name}.json");
            let text = crate::document::pretty(&schema);
            if std::env::var_os("GUA_WRITE_SCHEMAS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == text,
                "docs/schema/{name}.json is out of date: GUA_WRITE_SCHEMAS=1 cargo test -p gua-render schemas"
            );
        }
    }
}
