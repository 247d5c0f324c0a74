//! Groups of people, `[[group]]`, for reports by group and by project.
//!
//! ```toml
//! [[group]]
//! name = "vision"
//! members = ["ada", "bob", "pod:vision/*"]
//! kind = "group"  # or "project"
//! ```

use gua_model::report::groups::{Group, GroupKind};
use serde_json::json;
use toml::de::DeValue;
use toml_edit::{Array, Value};

use crate::array::{Mistakes, Row};
use crate::kind::{Home, Parsed, Raw, kinds};
use crate::quota::{is_name, quoted};
use crate::table::GroupFields;

impl Row for Group {
    type Fields = GroupFields;
    const NOUN: &'static str = "group";

    fn of_table(fields: &GroupFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        if fields.name.is_none() {
            mistakes.push(start, "group: name is missing; write name = \"NAME\"");
        }
        if fields.members.is_none() {
            mistakes.push(
                start,
                "group: members is missing; write members = [\"ada\"]",
            );
        }
        let name = fields.name.as_ref().and_then(|field| field.value.clone());
        let members = fields
            .members
            .as_ref()
            .and_then(|field| field.value.clone());
        let kind = fields.kind.as_ref().and_then(|field| field.value);
        vec![Group {
            name: name.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            members: members.unwrap_or_default(),
        }]
    }

    fn is_same(&self, other: &Group) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }

    fn to_table(&self) -> Vec<(&'static str, Value)> {
        let members: Array = self.members.iter().map(String::as_str).collect();
        let kind = (self.kind != GroupKind::default()).then(|| ("kind", self.kind.as_str().into()));
        let first = [("name", (&self.name).into()), ("members", members.into())];
        first.into_iter().chain(kind).collect()
    }

    fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        let pairs = [
            ("name", json!(self.name)),
            ("kind", json!(self.kind.as_str())),
            ("members", json!(self.members)),
        ];
        let pairs = pairs.into_iter();
        pairs.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

kinds! {
    /// Patterns of the members' names.
    Members: Vec<String>, "a list of names such as [\"ada\", \"pod:vision/*\"]", |raw, _| members(raw), |members| json!(members);
    /// Whether it is a group or a project.
    GroupKindName: GroupKind, "group or project", |raw, _| quoted(raw, parse_kind), |kind| kind.as_str().into();
}

fn members(raw: Raw<'_>) -> Parsed<Vec<String>> {
    let Raw::Toml(DeValue::Array(list)) = raw else {
        return Err(None);
    };
    let member = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) if is_name(text) => Ok(text.to_string()),
        _ => Err(None),
    };
    let members: Vec<String> = list.iter().map(member).collect::<Parsed<_>>()?;
    if members.is_empty() {
        return Err(None);
    }
    Ok(members)
}

fn parse_kind(text: &str) -> Result<GroupKind, String> {
    let mut kinds = GroupKind::ALL.into_iter();
    let found = kinds.find(|kind| kind.as_str() == text);
    found.ok_or_else(|| "expected group or project".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array;

    /// The groups of a file, and its mistakes.
    fn read(text: &str) -> (Vec<Group>, Vec<String>) {
        let document = toml::de::DeTable::parse(text).unwrap();
        let mut mistakes = Mistakes::default();
        let value = document.get_ref().get("group").unwrap();
        let rows = array::rows::<Group>(value, &Home(None), &mut mistakes).unwrap();
        let groups = rows.into_iter().map(|(group, _)| group).collect();
        let messages = mistakes.0.into_iter().map(|(_, message)| message);
        (groups, messages.collect())
    }

    #[test]
    fn a_group_has_a_name_members_and_a_kind() {
        let (groups, mistakes) = read(
            "[[group]]\nname = \"vision\"\nmembers = [\"ada\", \"pod:vision/*\"]\n[[group]]\nname = \"mars\"\nkind = \"project\"\nmembers = [\"bob\"]\n",
        );
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(groups[0].members, ["ada", "pod:vision/*"]);
        assert_eq!(groups[0].kind, GroupKind::Group);
        assert_eq!(
            (groups[1].name.as_str(), groups[1].kind),
            ("mars", GroupKind::Project)
        );
        let keys = groups[1].to_table().into_iter().map(|(key, _)| key);
        assert_eq!(keys.collect::<Vec<_>>(), ["name", "members", "kind"]);
    }

    #[test]
    fn a_mistake_is_reported_and_its_group_left_out() {
        for (text, expected) in [
            ("name = \"a\"", "members is missing"),
            ("members = [\"a\"]", "name is missing"),
            ("name = \"a\"\nmembers = \"b\"", "a list of names"),
            ("name = \"a\"\nmembers = []", "a list of names"),
            (
                "name = \"a\"\nmembers = [\"b\"]\nkind = \"team\"",
                "group or project",
            ),
        ] {
            let (groups, mistakes) = read(&format!("[[group]]\n{text}\n"));
            assert!(groups.is_empty(), "{text}");
            let found = mistakes.iter().any(|one| one.contains(expected));
            assert!(found, "{text}: {mistakes:?}");
        }
    }
}
