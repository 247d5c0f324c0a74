//! Checks of the link to a board: whether its secret is protected, and whether the board responds. No secret is shown.

use gua_model::text::sanitize;
use serde_json::json;

use super::check::{Check, Group, Kind, Status};
use super::facts::{Answer, Enrolled, Facts, Fault, Link};

const LINK: Kind = Kind::new(Group::Setup, "board_link", "board");

pub(super) fn link(facts: &Facts) -> Check {
    match &facts.link {
        Link::NotEnrolled => Check::new(
            LINK,
            Status::Ok,
            "this host is enrolled at none, and reports to nobody",
            json!({ "board": null, "answer": null, "secret_is_private": null, "is_encrypted": null }),
        ),
        Link::Unusable { path, why, fault } => {
            let details = json!({ "board": null, "answer": "unusable", "secret_is_private": null, "is_encrypted": null });
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
            Check::new(LINK, Status::Warning, summary, details).advise(advice)
        }
        Link::Enrolled(enrolled) => judged(enrolled),
    }
}

fn judged(enrolled: &Enrolled) -> Check {
    let Enrolled {
        path,
        named,
        mode,
        is_exposed,
        answer,
    } = enrolled;
    let path = sanitize(&path.to_string_lossy());
    let is_private = mode.map(|mode| mode & 0o077 == 0);
    let (word, status, said) = match answer {
        Answer::Accepted => (
            "accepted",
            Status::Ok,
            "it answers and accepts this host's token".to_owned(),
        ),
        Answer::Unasked => (
            "reached",
            Status::Ok,
            "it answers; only a push can tell whether it accepts this host's token".to_owned(),
        ),
        Answer::Denied => (
            "denied",
            Status::Warning,
            "it does not accept this host's token".to_owned(),
        ),
        Answer::None(why) => ("none", Status::Warning, sanitize(why)),
    };
    let mut sentences = vec![format!("{}: {said}", sanitize(named))];
    let mut advice = Vec::new();
    match answer {
        Answer::Denied => {
            advice.push("Enrol this host again: `gua enroll --force` with a new token.".to_owned());
        }
        Answer::None(_) => advice.push(
            "Look whether the board runs and whether this host reaches it; proxies come from the environment, certificate authorities from --ca-file (cloud.ca_file)."
                .to_owned(),
        ),
        Answer::Accepted | Answer::Unasked => {}
    }
    if is_private == Some(false) {
        sentences.push("others can read its secret".to_owned());
        advice.push(format!("Keep the secret to its owner: `chmod 600 {path}`."));
    }
    if *is_exposed {
        sentences.push("the secret crosses the network unencrypted".to_owned());
        advice.push("Reach the board by https.".to_owned());
    }
    let status = if advice.is_empty() {
        status
    } else {
        Status::Warning
    };
    let details = json!({
        "board": sanitize(named),
        "answer": word,
        "secret_is_private": is_private,
        "is_encrypted": !is_exposed,
    });
    let check = Check::new(LINK, status, sentences.join("; "), details);
    advice.into_iter().fold(check, Check::advise)
}

#[cfg(test)]
mod tests {
    use super::*;
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
