//! Descriptions of the configuration: the commented default file, the settings in force, and the files that were
//! searched.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::table::Shown;
use crate::{ARRAYS, ENTRIES, Entry, Inputs, Settings, Source};

/// Returns a file with every setting, its default and its description. Every value is commented out, so that the
/// defaults of a later version still take effect.
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

/// Format name of [`ConfigDocument`].
pub const CONFIG: &str = "gua.config.v1";

/// Output of `gua config show --json`: the settings in force.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigDocument<'a> {
    schema_version: u32,
    /// The settings by section and key.
    settings: BTreeMap<&'static str, BTreeMap<&'static str, ShownSetting<'a>>>,
    /// The rows of each array of tables, such as `quotas` and `alerts`.
    #[serde(flatten)]
    arrays: BTreeMap<&'static str, Vec<ShownTable<'a>>>,
}

/// A setting in force.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownSetting<'a> {
    value: Value,
    source: ShownSource<'a>,
}

/// A row of an array of tables.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownTable<'a> {
    #[serde(flatten)]
    fields: Map<String, Value>,
    source: ShownSource<'a>,
}

/// Source of a value.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ShownSource<'a> {
    Default,
    File { path: Cow<'a, str>, line: usize },
    Environment { name: &'static str },
    Flag { name: &'a str },
}

impl<'a> ConfigDocument<'a> {
    pub fn new(settings: &'a Settings) -> Self {
        let mut sections = BTreeMap::<_, BTreeMap<_, _>>::new();
        for Shown {
            entry,
            json,
            source,
            ..
        } in settings.shown()
        {
            let source = source.into();
            let setting = ShownSetting {
                value: json,
                source,
            };
            let section = sections.entry(entry.section).or_default();
            section.insert(entry.key, setting);
        }
        let empty = ARRAYS.iter().map(|array| (array.list, Vec::new()));
        let mut arrays: BTreeMap<_, Vec<_>> = empty.collect();
        for row in settings.shown_rows() {
            let table = ShownTable {
                fields: row.json,
                source: row.source.into(),
            };
            arrays.entry(row.list).or_default().push(table);
        }
        Self {
            schema_version: 1,
            settings: sections,
            arrays,
        }
    }
}

impl<'a> From<&'a Source> for ShownSource<'a> {
    fn from(source: &'a Source) -> Self {
        match source {
            Source::Default => ShownSource::Default,
            Source::File { path, line } => ShownSource::File {
                path: path.to_string_lossy(),
                line: *line,
            },
            Source::Environment(name) => ShownSource::Environment { name },
            Source::Flag(name) => ShownSource::Flag { name },
        }
    }
}

/// Lists the configuration files in descending priority, one per line, each with its status.
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
