//! The Settings page: the settings that admins can change while the board runs, and the options of its command line.

use gua_board_store::registry::{Role, Settings};
use gua_model::text::sanitize;
use maud::{Markup, html};

use super::layout::{Page, Tab, View};
use super::text;
use crate::api;
use crate::api::settings::{BoardFacts, SettingsDocument};
use crate::call::{Answer, Call};

pub(crate) fn settings(call: &Call) -> Answer {
    let found = api::settings::settings(call)?;
    let page = Page::new(call, Tab::Settings);
    let main = html! {
        section { (form(&page, &found)) }
        section {
            h2 { (page.t(text::BOARD_FACTS)) }
            p.say { (page.t(text::BOARD_FACTS_LEAD)) }
            (facts(&page, &found.board))
        }
        section {
            h2 { (page.t(text::DATA)) }
            p.say { (page.with(text::DATA_LEAD, &[&found.board.snapshot_hours.to_string()])) }
            (page.copyable("gua board backup /backup/board.db"))
            (page.copyable("gua board check"))
        }
    };
    Ok(page.show_headed(page.t(text::SETTINGS), &main))
}

fn form(page: &Page<'_>, found: &SettingsDocument) -> Markup {
    let days = Settings::SESSION_DAYS;
    html! {
        form.stack.wide method="post" action=(page.path("/settings")) {
            label { (page.t(text::TITLE)) input name="title" maxlength="100" placeholder=(page.t(text::BOARD)) value=[found.title.as_deref()] aria-describedby="title-rule"; }
            small id="title-rule" { (page.t(text::TITLE_RULE)) }
            label { (page.t(text::NAMES_FROM))
                select name="namesFrom" aria-describedby="names-rule" {
                    @for role in Role::ALL {
                        option value=(role) selected[role == found.names_from] { (page.t(text::names_from(role))) }
                    }
                }
            }
            small id="names-rule" { (page.t(text::NAMES_RULE)) }
            label { (page.t(text::SESSION_DAYS)) input name="sessionDays" type="number" min=(days.start()) max=(days.end()) value=(found.session_days) aria-describedby="session-rule"; }
            small id="session-rule" { (page.t(text::SESSION_RULE)) }
            div { button type="submit" { (page.t(text::SAVE)) } }
        }
    }
}

fn facts(view: &View, board: &BoardFacts) -> Markup {
    let none = view.t(text::NOT_SET);
    let join = match board.new_accounts {
        Some(role) => view.with(text::JOIN_AS, &[role.as_str()]),
        None => view.t(text::JOIN_INVITED).to_owned(),
    };
    let stale = view.t(text::STALE_RULE);
    let proxies = board.proxies.join(", ");
    let rows: [(text::Text, &str); 9] = [
        (text::URL, &board.url),
        (text::VERSION, board.version),
        (text::ENCRYPTION, view.t(text::encryption(board.encryption))),
        (text::PIN, board.pin.as_deref().unwrap_or(none)),
        (
            text::PROXIES,
            if proxies.is_empty() { none } else { &proxies },
        ),
        (text::OIDC, board.oidc_issuer.as_deref().unwrap_or(none)),
        (
            text::USER_HEADER,
            board.user_header.as_deref().unwrap_or(none),
        ),
        (text::NEW_PEOPLE, &join),
        (text::STALE_HOSTS, stale),
    ];
    html! {
        div.scroll tabindex="0" { table {
            tbody { @for (name, value) in rows { tr { th scope="row" { (view.t(name)) } td.long { (sanitize(value)) } } } }
        } }
    }
}
