//! Validation of printed JSON against the published schema, by the Python package jsonschema.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::python;

/// Objects may have only the keys that the schema names, unless it says otherwise, so that every key is documented.
const VALIDATE: &str = "
import json, sys, jsonschema
def close(part):
    if isinstance(part, dict):
        if 'properties' in part:
            part.setdefault('additionalProperties', False)
        part = part.values()
    if not isinstance(part, (str, int, bool, type(None))):
        for inner in part:
            close(inner)
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
close(schema)
validator = jsonschema.Draft202012Validator(schema)
errors = [f'{error.json_path}: {error.message}' for error in validator.iter_errors(json.load(sys.stdin))]
sys.exit('\\n'.join(errors) or None)
";

/// Panics unless `json` is valid under `docs/schema/NAME.json`.
#[track_caller]
pub fn check(name: &str, json: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let mut child = Command::new(python::PEERS.program("python"))
        .args(["-c", VALIDATE])
        .arg(docs.join(format!("{name}.json")))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(json.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}\n{json}");
}

/// Compares a schema with `docs/schema/NAME.json`; with `GUA_WRITE_SCHEMAS=1` it writes the file first.
#[track_caller]
pub fn assert_published(name: &str, schema: &str) {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    let path = format!("{directory}/{name}.json");
    if crate::variable("GUA_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == schema,
        "docs/schema/{name}.json is out of date: run this test with GUA_WRITE_SCHEMAS=1"
    );
}
