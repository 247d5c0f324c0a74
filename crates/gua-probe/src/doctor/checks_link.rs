//! Checks of the link to a board: whether its secret is protected, and whether the board responds. No secret is shown.

use gua_model::text::sanitize;

use super::check::{Finding, Status};
use super::details::Details;
use super::facts::{Answer, Enrolled, Facts, Fault, Link};

pub(super) fn board_link(facts: &Facts) -> Finding {
    let details = |answer| Details::BoardLink {
        answer,
        board: None,
        is_encrypted: None,
        secret_is_private: None,
    };
    match &facts.known.link {
        Link::NotEnrolled => {
            Status::Ok.finding("not enrolled; nothing is sent to a board", details(None))
        }
        Link::Unusable { path, why, fault } => {
            let path = sanitize(&path.to_string_lossy());
            let summary = format!("the enrolment cannot be used: {}", sanitize(why));
            let advice = match fault {
                Fault::Unreadable => format!(
                    "Run gua as the user who enrolled this host, or let this one read `{path}`."
                ),
                Fault::Contents => format!(
                    "Enrol this host again (`gua enroll --force`), or remove the enrolment (`gua unenroll`): `{path}`."
                ),
                Fault::Endpoint => "Check `cloud.ca_file` and `cloud.allow_http` (`gua config show`), and the proxies of the environment."
                    .to_owned(),
            };
            let details = details(Some("unusable"));
            Status::Warning.finding(summary, details).advise(advice)
        }
        Link::Enrolled(enrolled) => enrolment(enrolled),
    }
}

fn enrolment(enrolled: &Enrolled) -> Finding {
    let named = sanitize(&enrolled.named);
    let is_private = enrolled.mode.map(|mode| mode & 0o077 == 0);
    let (word, result, action) = match &enrolled.answer {
        Answer::Accepted => ("accepted", "it accepts this host's token", None),
        Answer::Unverified => (
            "reached",
            "it responds; only a push shows whether it accepts this host's token",
            None,
        ),
        Answer::Denied => (
            "denied",
            "it rejects this host's token",
            Some("Enrol this host again: `gua enroll --force` with a new token."),
        ),
        Answer::None(why) => (
            "none",
            why.as_str(),
            Some(
                "Check that the board is running and reachable from this host; proxies come from the environment, CA certificates from --ca-file (cloud.ca_file).",
            ),
        ),
    };
    let mut sentences = vec![format!("{named}: {}", sanitize(result))];
    let mut advice = Vec::from_iter(action.map(str::to_owned));
    if is_private == Some(false) {
        sentences.push("other users can read its secret".to_owned());
        let path = sanitize(&enrolled.path.to_string_lossy());
        advice.push(format!("Make the secret private: `chmod 600 {path}`."));
    }
    if enrolled.is_exposed {
        sentences.push("the secret crosses the network unencrypted".to_owned());
        advice.push("Use https for the board.".to_owned());
    }
    let details = Details::BoardLink {
        answer: Some(word),
        board: Some(named),
        is_encrypted: Some(!enrolled.is_exposed),
        secret_is_private: is_private,
    };
    Finding::advised(sentences.join("; "), details, advice)
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
        facts.known.link = Link::Enrolled(Enrolled {
            path: "/home/ada/.gua/cloud.json".into(),
            named: "lab 1 (https://b)".to_owned(),
            mode: Some(mode),
            is_exposed,
            answer,
        });
        assert_check(&board_link(&facts), status, summary, advice);
    }

    #[test]
    fn a_board_that_responds_passes_if_the_secret_is_private() {
        let fine = "lab 1 (https://b): it accepts this host's token";
        check(0o100_600, false, Answer::Accepted, Status::Ok, fine, &[]);
        check(
            0o100_600,
            false,
            Answer::Unverified,
            Status::Ok,
            "lab 1 (https://b): it responds; only a push shows whether it accepts this host's token",
            &[],
        );
        check(
            0o100_640,
            true,
            Answer::Accepted,
            Status::Warning,
            &format!(
                "{fine}; other users can read its secret; the secret crosses the network unencrypted"
            ),
            &[
                "advice: Make the secret private: `chmod 600 /home/ada/.gua/cloud.json`.",
                "advice: Use https for the board.",
            ],
        );
    }

    #[test]
    fn the_advice_depends_on_the_fault_of_the_enrolment() {
        let check = |fault: Fault, advice: &str| {
            let mut facts = healthy();
            facts.known.link = Link::Unusable {
                path: "/c.json".into(),
                why: "why".to_owned(),
                fault,
            };
            let summary = "the enrolment cannot be used: why";
            assert_check(&board_link(&facts), Status::Warning, summary, &[advice]);
        };
        check(
            Fault::Unreadable,
            "advice: Run gua as the user who enrolled this host, or let this one read `/c.json`.",
        );
        check(
            Fault::Contents,
            "advice: Enrol this host again (`gua enroll --force`), or remove the enrolment (`gua unenroll`): `/c.json`.",
        );
        check(
            Fault::Endpoint,
            "advice: Check `cloud.ca_file` and `cloud.allow_http` (`gua config show`), and the proxies of the environment.",
        );
    }

    #[test]
    fn a_board_that_rejects_or_does_not_respond_is_reported() {
        check(
            0o100_600,
            false,
            Answer::Denied,
            Status::Warning,
            "lab 1 (https://b): it rejects this host's token",
            &["advice: Enrol this host again: `gua enroll --force` with a new token."],
        );
        check(
            0o100_600,
            false,
            Answer::None("refused\u{1b}".to_owned()),
            Status::Warning,
            &format!("lab 1 (https://b): {}", sanitize("refused\u{1b}")),
            &[
                "advice: Check that the board is running and reachable from this host; proxies come from the environment, CA certificates from --ca-file (cloud.ca_file).",
            ],
        );
    }
}
