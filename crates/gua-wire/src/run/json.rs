//! JSON in the style of Python's `json.dumps`: one line, ASCII, a space after each comma and colon, keys in the given
//! order.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::python;

/// Serializes a value on one line. A value that JSON cannot represent (a map with non-string keys) is an error; a
/// number that is not finite becomes `null`.
pub fn one_line<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine))?;
    Ok(String::from_utf8(bytes).expect("a serializer of JSON writes UTF-8"))
}

/// Named values in insertion order.
///
/// ```
/// use gua_wire::run::json::Fields;
///
/// let fields = Fields::new().with("epoch", 3).with("note", "größer");
/// assert_eq!(fields.to_json(), r#"{"epoch": 3, "note": "gr\u00f6\u00dfer"}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

/// The text is not valid JSON.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value")]
pub struct NoJson(#[from] serde_json::Error);

impl Fields {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value. An existing name gets the new value and keeps its position.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let text = one_line(&value.into()).expect("a JSON value always fits JSON");
        self.put(name, text);
        self
    }

    /// Like [`Fields::with`], for any serializable value; the order of a struct's fields is kept.
    pub fn insert<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), NoJson> {
        let text = one_line(value)?;
        self.put(name, text);
        Ok(())
    }

    /// Like [`Fields::with`], for a value that is already JSON. Its numbers are kept as written.
    pub fn insert_json(&mut self, name: &str, text: &str) -> Result<(), NoJson> {
        serde_json::from_str::<IgnoredAny>(text)?;
        // In valid JSON, these occur only between values.
        let line = text.trim().replace(['\n', '\r', '\t'], "");
        self.put(name, python::escaped(&line));
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over names and their JSON values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Serializes the object on one line.
    pub fn to_json(&self) -> String {
        let mut line = String::from("{");
        for (place, (name, text)) in self.iter().enumerate() {
            if place > 0 {
                line.push_str(", ");
            }
            line.push_str(&one_line(name).expect("a text always fits JSON"));
            line.push_str(": ");
            line.push_str(text);
        }
        line.push('}');
        line
    }

    pub(super) fn put(&mut self, name: &str, text: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = text,
            None => self.0.push((name.to_owned(), text)),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(python::escaped(fragment).as_bytes())
    }

    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(python::float(value).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_python_writes_them() {
        let check = |value: Value, expected: &str| {
            assert_eq!(one_line(&value).unwrap(), expected);
        };
        check(
            serde_json::json!([1, 2.5, null, true, "a\"b\n"]),
            r#"[1, 2.5, null, true, "a\"b\n"]"#,
        );
        check(1e-7.into(), "1e-07");
        check(1e22.into(), "1e+22");
        check(1.5e300.into(), "1.5e+300");
        check(0.0001.into(), "0.0001");
        check(1e15.into(), "1000000000000000.0");
        check((-0.0).into(), "-0.0");
        check("ü\u{1f600}".into(), r#""\u00fc\ud83d\ude00""#);
        check("\u{7f}".into(), r#""\u007f""#);
    }

    #[test]
    fn json_from_elsewhere_keeps_its_order_and_becomes_one_line() {
        let mut fields = Fields::new();
        fields
            .insert_json("z", "{\n\t\"b\": 1.10,\r\n \"a\": \"ü\"}")
            .unwrap();
        assert_eq!(fields.to_json(), r#"{"z": {"b": 1.10, "a": "\u00fc"}}"#);
        assert!(fields.insert_json("y", "NaN").is_err());
        assert!(fields.insert_json("y", "1 2").is_err());
    }
}
