//! Groups of people, `[[group]]`, for reports by group and by project.
//!
//! ```toml
//! [[group]]
//! name = "vision"
//! members = ["ada", "bob", "pod:vision/*"]
//! kind = "group"  # or "project"
//! ```

use gua_model::report::groups::{Group, GroupKind};

use crate::array::{Mistakes, Pair, Row};
use crate::kind::{Home, Raw, kinds, list, texts};
use crate::quota::is_name;
use crate::table::GroupFields;

impl Row for Group {
    type Fields = GroupFields;
    const NOUN: &'static str = "group";

    fn of_table(fields: &GroupFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let needed = [
            ("name", fields.name.at, "\"NAME\""),
            ("members", fields.members.at, "[\"ada\"]"),
        ];
        mistakes.require::<GroupFields>(start, &needed);
        vec![Group {
            name: fields.name.value.clone().unwrap_or_default(),
            kind: fields.kind.value.unwrap_or_default(),
            members: fields.members.value.clone().unwrap_or_default(),
        }]
    }

    fn is_same(&self, other: &Group) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }

    fn pairs(&self) -> Vec<Pair> {
        vec![
            Pair::new("name", self.name.as_str()),
            Pair::new("members", self.members.clone()),
            Pair::new("kind", self.kind.as_str()).unless(self.kind == GroupKind::default()),
        ]
    }
}

kinds! {
    /// Patterns of the members' names.
    Members: Vec<String>, "a list of names such as [\"ada\", \"pod:vision/*\"]",
        |raw, _| list(raw).and_then(|names| names.iter().all(|name| is_name(name)).then_some(names).ok_or(None));
}

texts! {
    /// Whether it is a group or a project.
    GroupKindName: GroupKind, "group or project",
        |text| GroupKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| Some("expected group or project".to_owned()));
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
