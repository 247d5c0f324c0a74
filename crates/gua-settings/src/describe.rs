//! The configuration in words: the commented default file, the settings in force, the files looked at.

use gua_model::quota::Subject;
use serde_json::json;

use crate::quota::{self, Quota};
use crate::table::Shown;
use crate::{ENTRIES, Entry, Inputs, Settings, Source};

/// A file with every setting, its default and its meaning. Every value is commented out, so that a later version's
/// defaults take effect in it.
#[must_use]
pub fn default_file() -> String {
    let mut text = String::from(
        "# Configuration of gua. Remove the # before a setting to change it.\n\
         # Flags win over the environment, that over ~/.gua/config.toml, that over /etc/gua/config.toml.\n",
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
    text.push_str(QUOTAS);
    text
}

/// How limits are written; `gua quota set` writes them too.
const QUOTAS: &str = "
# Limits on what people may have, as many as there are: for a user, for a group (its members together, unless share is
# \"each\") or, without either, for everyone (each, unless share is \"together\"). What is limited is one or more of held,
# idle_held, charged (hours on a card) and energy; per is day, week, month, or a rolling window such as 30d.
#[[quota]]
#user = \"ada\"
#charged = \"100h\"
#per = \"month\"
";

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

/// The settings in force as a valid file, each with its source as a comment.
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
        // A path may hold a newline; a comment may not.
        let source = source.replace(char::is_control, "?");
        text.push_str(&format!("{:<width$}  # {source}\n", assignment(setting)));
    }
    for Quota { limit, source, .. } in &settings.quotas {
        let source = source.to_string().replace(char::is_control, "?");
        text.push_str(&format!("\n# {source}\n{}", quota::shown_toml(limit)));
    }
    text
}

/// The settings in force for a program.
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
    let quotas = settings.quotas.iter().map(|quota| {
        let Quota {
            limit, source: of, ..
        } = quota;
        let (user, group) = match &limit.subject {
            Subject::Everyone => (None, None),
            Subject::User(name) => (Some(name), None),
            Subject::Group(name) => (None, Some(name)),
        };
        json!({
            "user": user,
            "group": group,
            "share": quota::sharing_word(limit.sharing),
            "measure": quota::key(limit.measure),
            "limit": quota::amount_word(limit.measure, limit.most),
            "per": quota::term_word(limit.per),
            "source": source(of),
        })
    });
    let quotas: Vec<_> = quotas.collect();
    let document = json!({ "schema_version": 1, "settings": sections, "quotas": quotas });
    format!("{document:#}\n")
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

/// The files looked at, the strongest first, one per line with what is there.
#[must_use]
pub fn paths(inputs: &Inputs) -> String {
    let mut text = String::new();
    for candidate in inputs.candidates() {
        let state = match candidate.path.try_exists() {
            Ok(true) => "exists",
            Ok(false) => "absent",
            Err(_) => "cannot be looked at",
        };
        text.push_str(&format!("{}  ({state})\n", candidate.path.display()));
    }
    text
}
