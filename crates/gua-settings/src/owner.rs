//! Rules about owners, `[[owner]]`: which containers, pods, cgroups and accounts belong to which person or group.
//!
//! ```toml
//! [[owner]]
//! namespace = "vision"  # or container, pod, cgroup, user: one or more of them, and all must match
//! owner = "vision-lab"
//! ```

use gua_model::OwnerRule;
use gua_model::owner::UNKNOWN;
use serde_json::json;
use toml_edit::Value;

use crate::array::{Field, Mistakes, Row};
use crate::kind::{Home, Raw, kinds};
use crate::quota::{is_name, quoted};
use crate::table::OwnerFields;

impl Row for OwnerRule {
    type Fields = OwnerFields;
    const NOUN: &'static str = "rule";

    fn of_table(fields: &OwnerFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        let value = |field: &Option<Field<String>>| field.as_ref()?.value.clone();
        let rule = OwnerRule {
            container: value(&fields.container),
            pod: value(&fields.pod),
            namespace: value(&fields.namespace),
            cgroup: value(&fields.cgroup),
            user: value(&fields.user),
            owner: value(&fields.owner).unwrap_or_default(),
        };
        if fields.owner.is_none() {
            mistakes.push(start, "owner: owner is missing; write owner = \"NAME\"");
        }
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

    fn to_table(&self) -> Vec<(&'static str, Value)> {
        let conditions = conditions(self).into_iter();
        let set = conditions.filter_map(|(key, value)| Some((key, value.as_ref()?.into())));
        set.chain([("owner", (&self.owner).into())]).collect()
    }

    fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        let conditions = conditions(self).into_iter();
        let pairs = conditions.map(|(key, value)| (key.to_owned(), json!(value)));
        pairs
            .chain([("owner".to_owned(), json!(self.owner))])
            .collect()
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

kinds! {
    /// Pattern of a name.
    NamePattern: String, "a name; * matches any characters but /", |raw, _| quoted(raw, parse_pattern), |text| text.clone().into();
    /// Pattern of a cgroup path.
    PathPattern: String, "a path that starts with /; * matches any characters but /, ** for any",
        |raw, _| quoted(raw, parse_path), |text| text.clone().into();
    /// Name of a person or a group.
    OwnerName: String, "the name of a person or a group", |raw, _| quoted(raw, parse_owner), |name| name.clone().into();
}

fn parse_pattern(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a name or a pattern".to_owned()),
    }
}

fn parse_path(text: &str) -> Result<String, String> {
    match text.starts_with('/') && text.len() <= 4096 {
        true => Ok(text.to_owned()),
        false => Err("expected a path that starts with /".to_owned()),
    }
}

fn parse_owner(text: &str) -> Result<String, String> {
    match is_name(text) && text != UNKNOWN && !text.contains(':') {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected the name of a person or a group, without `:` and other than `{UNKNOWN}`"
        )),
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
    fn a_mistake_is_told_and_its_rule_is_left_out() {
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
