//! Rules about owners, `[[owner]]`: which containers, pods, cgroups and accounts belong to which person or group.
//!
//! ```toml
//! [[owner]]
//! namespace = "vision"  # or container, pod, cgroup, user: one or more of them, and all must match
//! owner = "vision-lab"
//! ```

use gua_model::OwnerRule;
use gua_model::owner::UNKNOWN;

use crate::array::{Mistakes, Pair, Row};
use crate::kind::{Home, Parsed, Raw, texts};
use crate::quota::is_name;
use crate::table::OwnerFields;

impl Row for OwnerRule {
    type Fields = OwnerFields;
    const NOUN: &'static str = "rule";

    fn of_table(fields: &OwnerFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let rule = OwnerRule {
            container: fields.container.value.clone(),
            pod: fields.pod.value.clone(),
            namespace: fields.namespace.value.clone(),
            cgroup: fields.cgroup.value.clone(),
            user: fields.user.value.clone(),
            owner: fields.owner.value.clone().unwrap_or_default(),
        };
        let needed = [("owner", fields.owner.at, "\"NAME\"")];
        mistakes.require::<OwnerFields>(start, &needed);
        if conditions(&rule).iter().all(|(_, value)| value.is_none()) && mistakes.is_empty() {
            let message =
                "owner: the rule matches nothing; write container, pod, namespace, cgroup or user";
            mistakes.push(start, message);
        }
        vec![rule]
    }

    fn is_same(&self, other: &OwnerRule) -> bool {
        conditions(self) == conditions(other)
    }

    fn pairs(&self) -> Vec<Pair> {
        let conditions = conditions(self).into_iter();
        let conditions = conditions.map(|(key, value)| Pair::new(key, value.clone()));
        let owner = Pair::new("owner", self.owner.as_str());
        conditions.chain([owner]).collect()
    }
}

fn conditions(rule: &OwnerRule) -> [(&'static str, &Option<String>); 5] {
    [
        ("container", &rule.container),
        ("pod", &rule.pod),
        ("namespace", &rule.namespace),
        ("cgroup", &rule.cgroup),
        ("user", &rule.user),
    ]
}

texts! {
    /// Pattern for a name; `*` matches any characters except `/`.
    NamePattern: String, "a name or a pattern", |text| only(text, is_name(text), NamePattern::WHAT);
    /// Pattern for a cgroup path; `*` matches any characters except `/`, and `**` matches any characters.
    PathPattern: String, "a path that starts with /",
        |text| only(text, text.starts_with('/') && text.len() <= 4096, PathPattern::WHAT);
    /// Name of a person or a group.
    OwnerName: String, "the name of a person or a group, without `:` and other than `unknown`",
        |text| only(text, is_name(text) && text != UNKNOWN && !text.contains(':'), OwnerName::WHAT);
}

/// Accepts a text, or says what is expected without repeating the text.
fn only(text: &str, is_valid: bool, what: &str) -> Parsed<String> {
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err(Some(format!("expected {what}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array;

    /// The rules of a file, and its mistakes.
    fn read(text: &str) -> (Vec<OwnerRule>, Vec<String>) {
        let document = toml::de::DeTable::parse(text).unwrap();
        let mut mistakes = Mistakes::default();
        let value = document.get_ref().get("owner").unwrap();
        let rows = array::rows::<OwnerRule>(value, &Home(None), &mut mistakes).unwrap();
        let rules = rows.into_iter().map(|(rule, _)| rule).collect();
        let messages = mistakes.0.into_iter().map(|(_, message)| message);
        (rules, messages.collect())
    }

    #[test]
    fn a_rule_has_conditions_and_an_owner() {
        let (rules, mistakes) = read(
            "[[owner]]\ncontainer = \"jupyter-*\"\nowner = \"ada\"\n[[owner]]\nnamespace = \"ml\"\npod = \"ml/t-?\"\nowner = \"lab\"\n",
        );
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(rules[0].container.as_deref(), Some("jupyter-*"));
        assert_eq!(
            (rules[1].pod.as_deref(), rules[1].owner.as_str()),
            (Some("ml/t-?"), "lab")
        );
        let keys: Vec<&str> = rules[1]
            .to_table()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["pod", "namespace", "owner"]);
    }

    #[test]
    fn a_mistake_is_reported_and_its_rule_is_ignored() {
        for (text, expected) in [
            ("container = \"x\"", "owner is missing"),
            ("owner = \"ada\"", "matches nothing"),
            (
                "user = \"svc\"\nowner = \"unknown\"",
                "other than `unknown`",
            ),
            (
                "cgroup = \"system.slice\"\nowner = \"ada\"",
                "starts with /",
            ),
            (
                "user = \"svc\"\nowner = \"ada\"\nbox = \"x\"",
                "unknown key `box`",
            ),
        ] {
            let (rules, mistakes) = read(&format!("[[owner]]\n{text}\n"));
            assert!(rules.is_empty(), "{text}");
            assert!(
                mistakes.iter().any(|one| one.contains(expected)),
                "{text}: {mistakes:?}"
            );
        }
        let twice = "[[owner]]\nuser = \"svc\"\nowner = \"ada\"\n";
        let (rules, mistakes) = read(&format!("{twice}{twice}"));
        assert_eq!((rules.len(), mistakes.len()), (1, 1));
    }
}
