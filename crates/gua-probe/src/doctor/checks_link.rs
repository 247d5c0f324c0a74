//! Checks of the link to a board: whether its secret is protected, and whether the board responds. No secret is shown.

use gua_model::text::sanitize;
use serde_json::json;

use super::check::{Check, Group, Kind};
use super::facts::{Answer, Enrolled, Facts, Fault, Link};

const LINK: Kind = Kind::new(Group::Setup, "board_link", "board");

pub(super) fn link(facts: &Facts) -> Check {
    let details = |answer: Option<&str>| json!({ "board": null, "answer": answer, "secret_is_private": null, "is_encrypted": null });
    match &facts.link {
        Link::NotEnrolled => {
            let summary = "this host is enrolled at none, and reports to nobody";
            LINK.ok(summary, details(None))
        }
        Link::Unusable { path, why, fault } => {
            let path = sanitize(&path.to_string_lossy());
            let summary = format!("the enrolment cannot be used: {}", sanitize(why));
            let advice = match fault {
                Fault::Unreadable => format!(
                    "Run gua as the user who enrolled this host, or let this one read `{path}`."
                ),
                Fault::Contents => format!(
                    "Enrol this host again (`gua enroll --force`), or forget the board (`gua unenroll`): `{path}`."
                ),
                Fault::Endpoint => "Look at `cloud.ca_file` and `cloud.allow_http` (`gua config show`) and at the proxies of the environment."
                    .to_owned(),
            };
            LINK.warning(summary, details(Some("unusable")))
                .advise(advice)
        }
        Link::Enrolled(enrolled) => judged(enrolled),
    }
}

fn judged(enrolled: &Enrolled) -> Check {
    let named = sanitize(&enrolled.named);
    let is_private = enrolled.mode.map(|mode| mode & 0o077 == 0);
    let (word, said, deed) = match &enrolled.answer {
        Answer::Accepted => ("accepted", "it answers and accepts this host's token", None),
        Answer::Unasked => (
            "reached",
            "it answers; only a push can tell whether it accepts this host's token",
            None,
        ),
        Answer::Denied => (
            "denied",
            "it does not accept this host's token",
            Some("Enrol this host again: `gua enroll --force` with a new token."),
        ),
        Answer::None(why) => (
            "none",
            why.as_str(),
            Some(
                "Look whether the board runs and whether this host reaches it; proxies come from the environment, certificate authorities from --ca-file (cloud.ca_file).",
            ),
        ),
    };
    let mut sentences = vec![format!("{named}: {}", sanitize(said))];
    let mut advice: Vec<String> = deed.map(str::to_owned).into_iter().collect();
    if is_private == Some(false) {
        sentences.push("others can read its secret".to_owned());
        let path = sanitize(&enrolled.path.to_string_lossy());
        advice.push(format!("Keep the secret to its owner: `chmod 600 {path}`."));
    }
    if enrolled.is_exposed {
        sentences.push("the secret crosses the network unencrypted".to_owned());
        advice.push("Reach the board by https.".to_owned());
    }
    let details = json!({
        "board": named,
        "answer": word,
        "secret_is_private": is_private,
        "is_encrypted": !enrolled.is_exposed,
    });
    LINK.warning_if_advised(sentences.join("; "), details, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use crate::doctor::fixture::{assert_check, healthy};

    fn check(
        mode: u32,
        is_exposed: bool,
        answer: Answer,
        status: Status,
        summary: &str,
        advice: &[&str],
    ) {
        let mut facts = healthy();
        facts.link = Link::Enrolled(Enrolled {
            path: "/home/ada/.gua/cloud.json".into(),
            named: "lab 1 (https://b)".to_owned(),
            mode: Some(mode),
            is_exposed,
            answer,
        });
        assert_check(&link(&facts), status, summary, advice);
    }

    #[test]
    fn a_board_that_answers_is_fine_while_the_secret_is_kept() {
        let fine = "lab 1 (https://b): it answers and accepts this host's token";
        check(0o100_600, false, Answer::Accepted, Status::Ok, fine, &[]);
        check(
            0o100_600,
            false,
            Answer::Unasked,
            Status::Ok,
            "lab 1 (https://b): it answers; only a push can tell whether it accepts this host's token",
            &[],
        );
        check(
            0o100_640,
            true,
            Answer::Accepted,
            Status::Warning,
            &format!(
                "{fine}; others can read its secret; the secret crosses the network unencrypted"
            ),
            &[
                "advice: Keep the secret to its owner: `chmod 600 /home/ada/.gua/cloud.json`.",
                "advice: Reach the board by https.",
            ],
        );
    }

    #[test]
    fn what_helps_an_enrolment_depends_on_what_is_wrong_with_it() {
        let check = |fault: Fault, advice: &str| {
            let mut facts = healthy();
            facts.link = Link::Unusable {
                path: "/c.json".into(),
                why: "why".to_owned(),
                fault,
            };
            let summary = "the enrolment cannot be used: why";
            assert_check(&link(&facts), Status::Warning, summary, &[advice]);
        };
        check(
            Fault::Unreadable,
            "advice: Run gua as the user who enrolled this host, or let this one read `/c.json`.",
        );
        check(
            Fault::Contents,
            "advice: Enrol this host again (`gua enroll --force`), or forget the board (`gua unenroll`): `/c.json`.",
        );
        check(
            Fault::Endpoint,
            "advice: Look at `cloud.ca_file` and `cloud.allow_http` (`gua config show`) and at the proxies of the environment.",
        );
    }

    #[test]
    fn a_board_that_is_away_or_strange_is_told() {
        check(
            0o100_600,
            false,
            Answer::Denied,
            Status::Warning,
            "lab 1 (https://b): it does not accept this host's token",
            &["advice: Enrol this host again: `gua enroll --force` with a new token."],
        );
        check(
            0o100_600,
            false,
            Answer::None("refused\u{1b}".to_owned()),
            Status::Warning,
            &format!("lab 1 (https://b): {}", sanitize("refused\u{1b}")),
            &[
                "advice: Look whether the board runs and whether this host reaches it; proxies come from the environment, certificate authorities from --ca-file (cloud.ca_file).",
            ],
        );
    }
}
