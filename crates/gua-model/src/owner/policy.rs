//! The configuration of owners: `owners.containers`, and the rules `[[owner]]` that name people and groups.

use serde::{Deserialize, Serialize};

use super::{ContainerOwners, Identity};

/// Rules by which owners are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerPolicy {
    pub containers: ContainerOwners,
    /// The first rule that matches decides.
    pub rules: Vec<OwnerRule>,
}

/// A rule that assigns processes to a person or a group. Every condition that is set must match. In a pattern `*` stands
/// for any characters but `/`, `**` for any characters, and `?` for one character but `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRule {
    /// Pattern of the name or ID of the container.
    pub container: Option<String>,
    /// Pattern of the pod, as `NAMESPACE/NAME`.
    pub pod: Option<String>,
    /// Pattern of the namespace of the pod.
    pub namespace: Option<String>,
    /// Pattern of a cgroup path of the process.
    pub cgroup: Option<String>,
    /// Name or uid of the user who would be the owner without this rule.
    pub user: Option<String>,
    /// Name of the owner.
    pub owner: String,
}

impl OwnerPolicy {
    /// Applies the policy to a process in these cgroups.
    pub fn apply<'a>(
        &self,
        identity: &mut Identity,
        cgroups: &(impl Iterator<Item = &'a str> + Clone),
    ) {
        identity.workload.containers = self.containers;
        let rule = self.rules.iter();
        let mut rule = rule.filter(|rule| rule.matches(identity, cgroups.clone()));
        identity.workload.assigned = rule.next().map(|rule| rule.owner.clone());
    }
}

impl OwnerRule {
    fn matches<'a>(&self, identity: &Identity, mut cgroups: impl Iterator<Item = &'a str>) -> bool {
        let workload = &identity.workload;
        // In a rootless container and in a job, users choose names.
        let is_of_root = workload.user.is_none() && workload.job.is_none();
        let container = [
            workload.container_name.as_deref(),
            workload.container.as_ref().map(|id| id.as_str()),
        ];
        let pod = workload.pod_name.as_deref();
        let namespace = pod.and_then(|pod| Some(pod.split_once('/')?.0));
        let any = |pattern: &Option<String>, texts: &[Option<&str>]| match pattern {
            None => true,
            Some(pattern) => texts.iter().flatten().any(|text| is_match(pattern, text)),
        };
        let is_user = |name: &String| identity.owner().is_some_and(|it| it.who.is_called(name));
        (self.container.is_none() || is_of_root)
            && any(&self.container, &container)
            && any(&self.pod, &[pod])
            && any(&self.namespace, &[namespace])
            && self.user.as_ref().is_none_or(is_user)
            && self
                .cgroup
                .as_ref()
                .is_none_or(|pattern| cgroups.any(|path| is_match(pattern, path)))
    }
}

/// Reports whether a pattern matches the whole text.
pub fn is_match(pattern: &str, text: &str) -> bool {
    // For every place in the text, whether the pattern so far can end there.
    let letters: Vec<char> = text.chars().collect();
    let mut ends = vec![false; letters.len() + 1];
    ends[0] = true;
    let mut signs = pattern.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign == '*' {
            let crosses = signs.next_if_eq(&'*').is_some();
            for (place, letter) in letters.iter().enumerate() {
                ends[place + 1] |= ends[place] && (crosses || *letter != '/');
            }
            continue;
        }
        for place in (0..letters.len()).rev() {
            let letter = letters[place];
            let is_it = match sign {
                '?' => letter != '/',
                _ => letter == sign,
            };
            ends[place + 1] = ends[place] && is_it;
        }
        ends[0] = false;
    }
    ends[letters.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
    use crate::owner::{User, Workload};

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "web1", false),
            ("web*", "web-1", true),
            ("*", "", true),
            ("ml/*", "ml/train-0", true),
            ("*", "ml/train-0", false),
            ("**", "ml/train-0", true),
            ("/a/**/c*", "/a/b/b/c.scope", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("?eb", "web", true),
            ("?", "/", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    fn identity(workload: Workload) -> Identity {
        let user = User {
            uid: Uid(33),
            name: Some("www-data".to_owned()),
        };
        Identity {
            key: ProcessKey {
                boot: BootId(1),
                pid: Pid(1),
                start: StartTicks(1),
            },
            login: Ok(None),
            claimed_login: None,
            own: Ok(user),
            workload,
            comm: Ok("python".to_owned()),
        }
    }

    /// A rule as `key pattern ...`; it assigns to `them`.
    fn rule(text: &str) -> OwnerRule {
        let mut rule = OwnerRule {
            owner: "them".to_owned(),
            ..OwnerRule::default()
        };
        let words: Vec<&str> = text.split(' ').collect();
        for pair in words.chunks(2) {
            let value = Some(pair[1].to_owned());
            match pair[0] {
                "container" => rule.container = value,
                "pod" => rule.pod = value,
                "namespace" => rule.namespace = value,
                "cgroup" => rule.cgroup = value,
                _ => rule.user = value,
            }
        }
        rule
    }

    #[test]
    fn a_rule_matches_names_namespaces_paths_and_accounts() {
        let web = || Workload {
            container: "0123456789abcdef".parse().ok(),
            container_name: Some("jupyter-ada".to_owned()),
            ..Workload::default()
        };
        let pod = || Workload {
            pod: "p".parse().ok(),
            pod_name: Some("ml/train-0".to_owned()),
            ..Workload::default()
        };
        let rootless = || Workload {
            user: Some(User {
                uid: Uid(1000),
                name: None,
            }),
            ..web()
        };
        let path = "/system.slice/docker-0123456789abcdef.scope";
        for (text, workload, expected) in [
            ("container jupyter-*", web(), true),
            ("container 0123456789ab*", web(), true),
            ("container other", web(), false),
            ("container jupyter-*", rootless(), false),
            ("pod ml/train-*", pod(), true),
            ("pod ml/train-*", web(), false),
            ("namespace ml", pod(), true),
            ("namespace m", pod(), false),
            ("cgroup /system.slice/docker-*.scope", web(), true),
            ("cgroup /user.slice/**", web(), false),
            ("user www-data", Workload::default(), true),
            ("user 33", Workload::default(), true),
            ("user www-data", web(), false),
            ("namespace ml pod ml/other", pod(), false),
        ] {
            let mut identity = identity(workload);
            let policy = OwnerPolicy {
                rules: vec![rule(text)],
                ..OwnerPolicy::default()
            };
            policy.apply(&mut identity, &[path].into_iter());
            assert_eq!(identity.workload.assigned.is_some(), expected, "{text}");
        }
    }
}
