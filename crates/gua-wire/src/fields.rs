//! JSON objects with required non-empty string fields: `cloud.json` and the response to a claim.

use serde_json::{Map, Value};

/// Error in such an object. It contains no field values, because one of them is a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    #[error("it is not valid JSON")]
    NotJson,
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("fields are missing, empty or not a string: {}", .0.join(", "))]
    Missing(Vec<&'static str>),
}

/// Returns the required fields in the order given. Other fields are ignored.
pub(crate) fn required<const COUNT: usize>(
    bytes: &[u8],
    names: [&'static str; COUNT],
) -> Result<[String; COUNT], FieldsError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| FieldsError::NotJson)?;
    let Value::Object(mut object) = value else {
        return Err(FieldsError::NotAnObject);
    };
    let missing: Vec<_> = names
        .into_iter()
        .filter(|name| !is_text(&object, name))
        .collect();
    if !missing.is_empty() {
        return Err(FieldsError::Missing(missing));
    }
    Ok(names.map(|name| match object.remove(name) {
        Some(Value::String(text)) => text,
        _ => unreachable!("it was seen to be a text, and the names differ"),
    }))
}

/// Returns an optional field of an object; `None` if it is absent or null.
pub(crate) fn optional(bytes: &[u8], name: &str) -> Option<Value> {
    let object: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    object.get(name).filter(|value| !value.is_null()).cloned()
}

fn is_text(object: &Map<String, Value>, name: &str) -> bool {
    matches!(object.get(name), Some(Value::String(text)) if !text.is_empty())
}
