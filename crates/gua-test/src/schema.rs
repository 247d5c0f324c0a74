//! Validation of printed JSON against the published schema, by the Python package jsonschema.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::python;

/// Objects may have only the keys that the schema names, unless it says otherwise, so that every key is documented. In an object
/// that has some keys in alternatives, each alternative names a part of its keys; only the object as a whole is closed.
const VALIDATE: &str = "
import copy, json, sys, jsonschema
COMBINED = ('allOf', 'anyOf', 'oneOf')
def close(part, definitions, is_alternative=False):
    if isinstance(part, list):
        for inner in part:
            close(inner, definitions)
    if not isinstance(part, dict):
        return
    if 'properties' in part and not is_alternative:
        combined = [key for key in COMBINED if key in part]
        for key in combined:
            for place, one in enumerate(part[key]):
                if '$ref' in one:
                    one = part[key][place] = copy.deepcopy(definitions[one['$ref'].split('/')[-1]])
                close(one, definitions, is_alternative=True)
        if not {'additionalProperties', 'unevaluatedProperties'} & part.keys():
            part['unevaluatedProperties' if combined else 'additionalProperties'] = False
    for key, inner in part.items():
        if not ('properties' in part and key in COMBINED):
            close(inner, definitions)
def validator(path):
    schema = json.load(open(path))
    jsonschema.Draft202012Validator.check_schema(schema)
    close(schema, copy.deepcopy(schema.get('$defs', {})))
    return jsonschema.Draft202012Validator(schema)
wrong = []
for name, line, document in json.load(sys.stdin):
    errors = validator(f'{sys.argv[1]}/{name}.json').iter_errors(document)
    wrong += [f'{name}: {line}: {error.json_path}: {error.message[:400]}' for error in errors]
sys.exit('\\n'.join(wrong) or None)
";

/// Panics unless `json` is valid under `docs/schema/NAME.json`.
#[track_caller]
pub fn check(name: &str, json: &str) {
    check_all(&[(name, "", json)]);
}

/// Panics unless all documents are valid: each has the name of its schema, the command that printed it, and its text.
#[track_caller]
pub fn check_all(documents: &[(&str, &str, &str)]) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let documents = documents.iter().map(|(name, line, text)| {
        let document: Value =
            serde_json::from_str(text).unwrap_or_else(|_| panic!("{line}: {text}"));
        json!([name, line, document])
    });
    let mut child = Command::new(python::PEERS.program("python"))
        .args(["-c", VALIDATE])
        .arg(docs)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(Value::from_iter(documents).to_string().as_bytes())
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
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
