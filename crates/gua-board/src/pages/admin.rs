//! Members, API tokens and the audit log; the parts that all administration pages share.

use gua_board_store::registry::{ApiToken, Role, Scope};
use gua_model::text::sanitize;
use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::{Page, Tab, View, encode, utc};
use super::text::{self, Text};
use crate::api::members::may_grant;
use crate::api::{self, Paged, Search};
use crate::call::{Answer, Call};

/// Query of a page with a long list: the search and the number of the page.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct ListQuery {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    page: String,
}

impl ListQuery {
    /// Returns the search in the form of the API. If the page is not a number, it is the first one.
    pub(super) fn search(&self) -> Search {
        Search {
            name: self.name.clone(),
            page: self.page.trim().parse().ok(),
        }
    }

    /// Field for the search, if the list is long or searched already.
    pub(super) fn field(&self, page: &Page<'_>, path: &str, is_long: bool) -> Markup {
        html! {
            @if is_long || !self.name.is_empty() {
                form.filter method="get" action=(page.path(path)) {
                    label { (page.t(text::SEARCH)) input name="name" type="search" maxlength="100" value=(self.name); }
                    button type="submit" { (page.t(text::APPLY)) }
                }
            }
        }
    }

    /// Links to the pages before and after.
    pub(super) fn links<T>(&self, view: &View, found: &Paged<T>) -> Markup {
        view.pages(found.page, found.pages, |page| match self.name.is_empty() {
            true => format!("?page={page}"),
            false => format!("?page={page}&name={}", encode(&self.name)),
        })
    }
}

/// A secret that is shown this once, or nothing.
pub(super) fn once(view: &View, lead: Text, secret: Option<&str>) -> Markup {
    html! {
        @if let Some(secret) = secret {
            section.note role="status" { p { (view.t(lead)) } (view.copyable(secret)) }
        }
    }
}

pub(super) fn until(view: &View, expires: Option<Timestamp>) -> Markup {
    html! { @match expires { Some(at) => (utc(at)), None => (view.t(text::NEVER)) } }
}

/// A form in one row: its fields, and the button that submits them.
pub(super) fn form(action: &str, name: &str, fields: &Markup) -> Markup {
    html! {
        form.row method="post" action=(action) { (fields) button type="submit" { (name) } }
    }
}

/// A form with one button.
pub(super) fn button(action: &str, name: &str, label: &str) -> Markup {
    html! {
        form method="post" action=(action) { button.danger type="submit" aria-label=(label) { (name) } }
    }
}

pub(crate) fn members(call: &Call) -> Answer {
    members_page(call, &call.query()?, None)
}

pub(crate) fn invite(call: &Call) -> Answer {
    let added = api::members::invite(call)?;
    members_page(call, &ListQuery::default(), Some(&added.url))
}

pub(crate) fn reset_member(call: &Call) -> Answer {
    let added = api::members::reset_member(call)?;
    members_page(call, &ListQuery::default(), Some(&added.url))
}

fn members_page(call: &Call, query: &ListQuery, url: Option<&str>) -> Answer {
    let members = api::members::page_of_members(call, &query.search())?;
    let page = Page::new(call, Tab::Members);
    let caller = page.caller;
    let main = html! {
        (once(&page, text::LINK_READY, url))
        section {
            (query.field(&page, "/members", members.pages > 1))
            (page.table(None, &[text::NAME, text::ROLE, text::MANAGE], &[], &html! { @for member in &members.items { tr {
                @let id = encode(member.account.as_str());
                @let name = sanitize(&member.name);
                th scope="row" { a href=(page.path(&format!("/members/{id}"))) { (name) } }
                td { (member.role) @if !member.groups.is_empty() { small { (sanitize(&member.groups.join(", "))) } } }
                td {
                    // A form that the API would refuse is not offered.
                    @if may_grant(caller.role, member.role) {
                        details {
                            summary aria-label=(format!("{} {name}", page.t(text::MANAGE))) { (page.t(text::MANAGE)) }
                            (form(&page.path(&format!("/members/{id}/role")), page.t(text::CHANGE_ROLE), &role_choice(&page, caller.role, member.role)))
                            (form(&page.path(&format!("/members/{id}/groups")), page.t(text::SET_GROUPS), &groups_field(&page, &member.groups)))
                            form.row method="post" action=(page.path(&format!("/members/{id}/reset"))) {
                                button type="submit" aria-label=(format!("{} {name}", page.t(text::RESET_PASSWORD))) { (page.t(text::RESET_PASSWORD)) }
                            }
                            (button(&page.path(&format!("/members/{id}/remove")), page.t(text::REMOVE), &format!("{} {name}", page.t(text::REMOVE))))
                        }
                    }
                }
            } } }))
            (query.links(&page, &members))
        }
        section {
            h2 { (page.t(text::INVITE)) }
            p.say { (page.t(text::INVITE_LEAD)) }
            (form(&page.path("/invitations"), page.t(text::CREATE_LINK), &role_choice(&page, caller.role, Role::Member)))
        }
    };
    Ok(page.show_headed(page.t(text::MEMBERS), &main))
}

/// Field of a form that sets groups.
pub(super) fn groups_field(view: &View, groups: &[String]) -> Markup {
    html! {
        label { (view.t(text::GROUPS)) input name="groups" maxlength="100" value=(groups.join(", ")) placeholder="vision, nlp"; }
    }
}

fn role_choice(view: &View, own: Role, chosen: Role) -> Markup {
    html! {
        label { (view.t(text::ROLE))
            select name="role" {
                @for role in Role::ALL {
                    @if may_grant(own, role) { option value=(role) selected[role == chosen] { (role) } }
                }
            }
        }
    }
}

pub(crate) fn tokens(call: &Call) -> Answer {
    tokens_page(call, &call.query()?, None)
}

pub(crate) fn add_token(call: &Call) -> Answer {
    let added = api::tokens::add_api_token(call)?;
    let (lead, shown) = match added.object.scope {
        Scope::Screen => {
            let url = format!("{}/screen/{}", call.app.options.public_url, added.secret);
            (text::SCREEN_READY, url)
        }
        Scope::Read | Scope::Write => (text::TOKEN_READY, added.secret),
    };
    tokens_page(call, &ListQuery::default(), Some((lead, &shown)))
}

fn tokens_page(call: &Call, query: &ListQuery, added: Option<(Text, &str)>) -> Answer {
    let tokens = api::tokens::page_of_tokens(call, &query.search())?;
    let page = Page::new(call, Tab::Tokens);
    let main = html! {
        @if let Some((lead, shown)) = added { (once(&page, lead, Some(shown))) }
        section {
            p.say { (page.t(text::TOKENS_LEAD)) }
            (query.field(&page, "/tokens", tokens.pages > 1))
            (token_table(&page, &tokens.items))
            (query.links(&page, &tokens))
        }
        section {
            h2 { (page.t(text::CREATE_TOKEN)) }
            (form(&page.path("/tokens"), page.t(text::CREATE_TOKEN), &html! {
                label { (page.t(text::SCOPE))
                    select name="scope" {
                        @for scope in Scope::ALL {
                            option value=(scope.as_str()) selected[scope == Scope::Read] { (page.t(text::scope(scope))) }
                        }
                    }
                }
                label { (page.t(text::DAYS)) input name="expiresInDays" type="number" min="1" max="3660" value="90"; }
            }))
            p.say { (page.t(text::WITHOUT_END)) }
        }
    };
    Ok(page.show_headed(page.t(text::TOKENS), &main))
}

fn token_table(page: &Page<'_>, tokens: &[ApiToken]) -> Markup {
    html! {
        @if tokens.is_empty() { p.say { (page.t(text::NO_TOKENS)) } } @else {
            (page.table(None, &[text::TOKEN, text::ACCOUNT, text::SCOPE, text::CREATED, text::EXPIRES, text::MANAGE], &[], &html! { @for token in tokens { tr {
                th scope="row" { code { (token.prefix) "…" } }
                td { (sanitize(&token.account_name)) }
                td { (page.t(text::scope(token.scope))) }
                td { (utc(token.created)) }
                td { (until(page, token.expires)) }
                td { (button(&page.path(&format!("/tokens/{}/revoke", encode(token.id.as_str()))), page.t(text::REVOKE), &page.with(text::REVOKE_OF, &[&token.prefix]))) }
            } } }))
        }
    }
}

pub(crate) fn audit(call: &Call) -> Answer {
    let before = call.query::<BeforePage>()?.before;
    let entries = api::members::find_entries(call, before)?;
    let page = Page::new(call, Tab::Audit);
    let main = html! { section {
        @if entries.is_empty() { p.say { (page.t(text::NO_ENTRIES)) } } @else {
            (page.table(Some("dense"), &[text::TIME, text::ACTOR, text::ACTION, text::OBJECT, text::ADDRESS], &[], &html! { @for entry in &entries { tr {
                td { time datetime=(entry.at) { (entry.at.strftime("%Y-%m-%d %H:%M:%S")) } }
                td { (shortened(&entry.actor)) }
                td { code { (entry.action.as_str()) } }
                td.long { (shortened(&entry.object)) }
                td { (entry.address.as_deref().map(sanitize).unwrap_or_default()) }
            } } }))
            nav.pages aria-label=(page.t(text::PAGES)) {
                @if before.is_some() { a rel="first" href="?" { (page.t(text::NEWEST)) } }
                @if let Some(last) = entries.last().filter(|last| last.number > 1) {
                    a rel="next" href=(format!("?before={}", last.number)) { (page.t(text::OLDER)) }
                }
            }
        }
    } };
    Ok(page.show_headed(page.t(text::AUDIT), &main))
}

/// Maximum length of a text of the audit log on the page, in characters.
const MAX_SHOWN: usize = 120;

/// Truncates a text of the audit log, so that any text fits on the page.
fn shortened(text: &str) -> String {
    let text = sanitize(text);
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Query of the audit log's page, which may name a language as well.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct BeforePage {
    before: Option<i64>,
}
