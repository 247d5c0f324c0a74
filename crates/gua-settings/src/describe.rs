//! Descriptions of the configuration: the commented default file, the settings in force, and the files that were
//! searched.

use serde_json::json;

use crate::table::Shown;
use crate::{ARRAYS, ENTRIES, Entry, Inputs, Settings, Source};

/// Returns a file with every setting, its default and its description. Every value is commented out, so that the
/// defaults of a later version still take effect.
#[must_use]
pub fn default_file() -> String {
    let mut text = String::from(
        "# Configuration of gua. Remove the # before a setting to change it.\n\
         # Precedence: flags, environment, ~/.gua/config.toml, /etc/gua/config.toml.\n",
    );
    for entry in ENTRIES {
        if begins_section(entry) {
            text.push('\n');
            comment(&mut text, entry.section_doc);
            text.push_str(&format!("[{}]\n", entry.section));
        }
        text.push('\n');
        comment(&mut text, entry.doc);
        text.push_str(&format!(
            "# Write {}. Variable: {}\n",
            entry.what, entry.env
        ));
        text.push_str(&format!("#{} = {}\n", entry.key, (entry.default_toml)()));
    }
    for array in ARRAYS {
        text.push('\n');
        comment(&mut text, array.doc);
        text.push_str(&format!("#[[{}]]\n", array.table));
        for line in array.example.lines() {
            text.push_str(&format!("#{line}\n"));
        }
    }
    text
}

fn comment(text: &mut String, doc: &str) {
    for line in doc.lines() {
        text.push_str(&format!("# {}\n", line.trim()));
    }
}

/// Whether this is the first setting of its section.
fn begins_section(entry: &Entry) -> bool {
    let first = ENTRIES.iter().find(|other| other.section == entry.section);
    first.is_some_and(|first| first.key == entry.key)
}

/// Returns the settings in force as a valid file, each with its source as a comment.
#[must_use]
pub fn settings_toml(settings: &Settings) -> String {
    let shown = settings.shown();
    let assignment = |shown: &Shown<'_>| format!("{} = {}", shown.entry.key, shown.toml);
    let width = shown
        .iter()
        .map(|shown| assignment(shown).chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for setting in &shown {
        if begins_section(setting.entry) {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}[{}]\n", setting.entry.section));
        }
        let source = setting.source.to_string();
        // A path can contain a newline; a comment cannot.
        let source = source.replace(char::is_control, "?");
        text.push_str(&format!("{:<width$}  # {source}\n", assignment(setting)));
    }
    for row in settings.shown_rows() {
        let source = row.source.to_string().replace(char::is_control, "?");
        text.push_str(&format!("\n# {source}\n{}", row.toml));
    }
    text
}

/// Returns the settings in force as JSON.
#[must_use]
pub fn settings_json(settings: &Settings) -> String {
    let mut sections = serde_json::Map::new();
    for setting in settings.shown() {
        let section = sections
            .entry(setting.entry.section)
            .or_insert_with(|| json!({}));
        if let Some(section) = section.as_object_mut() {
            section.insert(
                setting.entry.key.to_owned(),
                json!({ "value": setting.json, "source": source(setting.source) }),
            );
        }
    }
    let mut document = serde_json::Map::new();
    document.insert("schema_version".to_owned(), json!(1));
    document.insert("settings".to_owned(), sections.into());
    for array in ARRAYS {
        let shown = settings.shown_rows().into_iter();
        let rows = shown.filter(|row| row.list == array.list).map(|mut row| {
            row.json.insert("source".to_owned(), source(row.source));
            row.json
        });
        document.insert(array.list.to_owned(), rows.collect());
    }
    format!("{:#}\n", serde_json::Value::from(document))
}

fn source(source: &Source) -> serde_json::Value {
    match source {
        Source::Default => json!({ "kind": "default" }),
        Source::File { path, line } => {
            json!({ "kind": "file", "path": path.to_string_lossy(), "line": line })
        }
        Source::Environment(name) => json!({ "kind": "environment", "name": name }),
        Source::Flag(flag) => json!({ "kind": "flag", "name": flag }),
    }
}

/// Lists the configuration files in descending priority, one per line, each with its status.
#[must_use]
pub fn paths(inputs: &Inputs) -> String {
    let mut text = String::new();
    for candidate in inputs.candidates() {
        let state = match candidate.path.try_exists() {
            Ok(true) => "exists",
            Ok(false) => "absent",
            Err(_) => "cannot be examined",
        };
        text.push_str(&format!("{}  ({state})\n", candidate.path.display()));
    }
    text
}
