//! Common parts of all pages: language, frame, navigation, and the page of a failed request.

use std::ops::Deref;

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use gua_board_store::registry::Role;
use gua_model::text::{percent_encode, sanitize, short_age};
use gua_render::chart::Language;
use jiff::{SignedDuration, Timestamp};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use super::asset::{SCRIPT, STYLE};
use super::text::{self, Text};
use crate::access::{MemberCaller, Via, cookie};
use crate::call::Call;

/// Cookie with the language that a person chose.
const LANGUAGE_COOKIE: &str = "gua_language";
/// Lifetime of that cookie: a year.
const LANGUAGE_SECONDS: u32 = 31_536_000;

/// Language and address of a requested page.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) language: Language,
    /// Whether the URL names the language, which is then remembered.
    is_chosen: bool,
    /// Path of the page.
    path: String,
    /// Query of the page without the language.
    query: String,
    /// Whether people can log in at a provider.
    pub(super) has_provider: bool,
}

impl View {
    pub(crate) fn new(uri: &Uri, headers: &HeaderMap, has_provider: bool) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        let (languages, others): (Vec<&str>, Vec<&str>) = pairs
            .filter(|pair| !pair.is_empty())
            .partition(|pair| pair.starts_with("lang="));
        let chosen = languages.first().and_then(|pair| language(&pair[5..]));
        let remembered = || language(cookie(headers, LANGUAGE_COOKIE)?);
        let accepted = || {
            let header = headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?;
            header.split(',').find_map(|one| language(one.trim()))
        };
        Self {
            language: chosen
                .or_else(remembered)
                .or_else(accepted)
                .unwrap_or(Language::English),
            is_chosen: chosen.is_some(),
            path: uri.path().to_owned(),
            query: others.join("&"),
            has_provider,
        }
    }

    pub(crate) fn t(&self, text: Text) -> &'static str {
        text.of(self.language)
    }

    pub(crate) fn with(&self, text: Text, values: &[&str]) -> String {
        text.with(self.language, values)
    }

    /// Path and query of this page, to return to after a log-in.
    pub(crate) fn here(&self) -> String {
        match self.query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, self.query),
        }
    }

    fn other_code(&self) -> &'static str {
        self.language.pick("ko", "en")
    }

    fn other_language(&self) -> String {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        format!("{}{separator}lang={}", self.here(), self.other_code())
    }

    /// Answers with a whole page.
    pub(crate) fn page(&self, frame: Frame<'_>, main: &Markup) -> Response {
        let mut response = Html(self.document(frame, main).into_string()).into_response();
        if self.is_chosen {
            let cookie = format!(
                "{LANGUAGE_COOKIE}={}; SameSite=Lax; Path=/; Max-Age={LANGUAGE_SECONDS}",
                self.language.as_str()
            );
            let cookie = HeaderValue::from_str(&cookie).expect("a code is ASCII");
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }

    /// Returns a page with one narrow section, which needs no log-in.
    pub(crate) fn narrow_page(&self, title: &str, inside: &Markup) -> Response {
        let main = html! { section.narrow { h1 { (title) } (inside) } };
        let frame = Frame {
            title,
            ..Frame::default()
        };
        self.page(frame, &main)
    }

    fn document(&self, frame: Frame<'_>, main: &Markup) -> Markup {
        let live = frame.is_live.then(|| match frame.caller {
            Some(caller) => format!("{}/events", workspace_path(caller)),
            // The page of a wall screen, which has no account.
            None => format!("{}/events", self.path),
        });
        let reloads = frame.is_live && frame.caller.is_none();
        // The answer to a form has a URL that cannot be loaded again.
        let page = frame
            .caller
            .filter(|_| frame.tab == Some(Tab::Servers))
            .map(|caller| format!("{}/servers", workspace_path(caller)));
        html! {
            (DOCTYPE)
            html lang=(self.language.as_str()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    // Nobody reloads the page of a wall screen by hand.
                    @if reloads { noscript { meta http-equiv="refresh" content="30"; } }
                    title { (frame.title) " · " (self.brand(frame)) }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href=(format!("/assets/{}", STYLE.name));
                    script src=(format!("/assets/{}", SCRIPT.name)) defer {}
                }
                body {
                    a.skip href="#main" { (self.t(text::SKIP)) }
                    (self.masthead(frame))
                    main id="main" data-live=[live] data-page=[page] {
                        (main)
                    }
                }
            }
        }
    }

    /// Heading of every page: the title of the workspace.
    fn brand(&self, frame: Frame<'_>) -> String {
        let settings = frame.caller.map(|caller| &caller.workspace.settings);
        let title = settings.and_then(|settings| settings.title.as_deref());
        sanitize(title.unwrap_or(self.t(text::BOARD)))
    }

    fn masthead(&self, frame: Frame<'_>) -> Markup {
        html! {
            header.top {
                a.brand href="/" { (self.brand(frame)) }
                @if let Some(caller) = frame.caller {
                    nav aria-label=(caller.workspace.name) {
                        @for (tab, path, name) in tabs(caller) {
                            a href=(path) aria-current=[(frame.tab == Some(tab)).then_some("page")] { (self.t(name)) }
                        }
                    }
                }
                span.right {
                    @if frame.is_live { span.pulse { (self.t(text::LIVE)) } }
                    a href=(self.other_language()) hreflang=(self.other_code()) {
                        (self.t(text::OTHER_LANGUAGE))
                    }
                    @if let Some(caller) = frame.caller.filter(|caller| !matches!(caller.account.via, Via::Local)) {
                        form method="post" action="/logout" {
                            button.plain type="submit" title=(sanitize(&caller.account.name)) { (self.t(text::LOG_OUT)) }
                        }
                    }
                }
            }
        }
    }

    /// Returns how long ago a time was.
    pub(crate) fn ago(&self, at: Timestamp, now: Timestamp) -> Markup {
        let shown = self.with(text::AGO, &[&age(at, now)]);
        html! { time datetime=(at) title=(utc(at)) { (shown) } }
    }

    /// Links to the pages before and after this one; nothing if there is only one.
    pub(crate) fn pages(
        &self,
        page: usize,
        pages: usize,
        query: impl Fn(usize) -> String,
    ) -> Markup {
        html! {
            @if pages > 1 {
                nav.pages aria-label=(self.t(text::PAGES)) {
                    @if page > 1 { a rel="prev" href=(query(page - 1)) { (self.t(text::PREVIOUS)) } }
                    span { (self.with(text::PAGE_OF, &[&page.to_string(), &pages.to_string()])) }
                    @if page < pages { a rel="next" href=(query(page + 1)) { (self.t(text::NEXT)) } }
                }
            }
        }
    }

    /// A table that scrolls sideways on a narrow screen. `numbers` has the places of the columns with numbers.
    pub(crate) fn table(
        &self,
        class: Option<&str>,
        columns: &[Text],
        numbers: &[usize],
        rows: &Markup,
    ) -> Markup {
        let class_of = |place: usize| numbers.contains(&place).then_some("n");
        html! {
            div.scroll tabindex="0" { table class=[class] {
                thead { tr { @for (place, column) in columns.iter().enumerate() {
                    th class=[class_of(place)] scope="col" { (self.t(*column)) }
                } } }
                tbody { (rows) }
            } }
        }
    }

    /// A secret or command with a button that copies it. A click selects it as a whole, also without JavaScript.
    pub(crate) fn copyable(&self, value: &str) -> Markup {
        html! {
            span.copy {
                code { (value) }
                button.plain type="button" data-copy { (self.t(text::COPY)) }
            }
        }
    }
}

/// A page of a member, with the texts and parts of its view.
pub(crate) struct Page<'a> {
    view: View,
    pub(crate) caller: &'a MemberCaller,
    pub(crate) now: Timestamp,
    tab: Tab,
}

impl<'a> Page<'a> {
    pub(crate) fn new(call: &'a Call, tab: Tab) -> Self {
        Self::of(call, call.caller(), tab)
    }

    pub(crate) fn of(call: &Call, caller: &'a MemberCaller, tab: Tab) -> Self {
        Self {
            view: call.view(),
            caller,
            now: call.app.now(),
            tab,
        }
    }

    pub(crate) fn show(&self, title: &str, main: &Markup) -> Response {
        let frame = Frame {
            title,
            caller: Some(self.caller),
            tab: Some(self.tab),
            is_live: matches!(self.tab, Tab::Overview | Tab::Availability | Tab::Servers),
        };
        self.view.page(frame, main)
    }

    /// Shows the page with its title as the heading.
    pub(crate) fn show_headed(&self, title: &str, main: &Markup) -> Response {
        self.show(title, &html! { h1 { (title) } (main) })
    }

    /// Path of a form or page of the workspace.
    pub(crate) fn path(&self, rest: &str) -> String {
        workspace_path(self.caller) + rest
    }
}

impl Deref for Page<'_> {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// Frame around the content of a page, by default of one before the log-in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// `None` before the log-in.
    pub(crate) caller: Option<&'a MemberCaller>,
    pub(crate) tab: Option<Tab>,
    pub(crate) is_live: bool,
}

/// Pages of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Availability,
    Report,
    People,
    Servers,
    Members,
    Tokens,
    Settings,
    Audit,
    Me,
}

/// Each page of the navigation, with the role from which its route admits.
const TABS: &[(Tab, Role, &str, Text)] = &[
    (Tab::Availability, Role::Viewer, "", text::AVAILABILITY),
    (Tab::Servers, Role::Admin, "/servers", text::SERVERS),
    (Tab::Members, Role::Admin, "/members", text::MEMBERS),
    (Tab::Tokens, Role::Member, "/tokens", text::TOKENS),
    (Tab::Settings, Role::Admin, "/settings", text::SETTINGS),
    (Tab::Audit, Role::Admin, "/audit", text::AUDIT),
    (Tab::Me, Role::Viewer, "/me", text::ME),
];

/// Pages of a server without accounts, with their whole paths.
const LOCAL_TABS: &[(Tab, Role, &str, Text)] = &[
    (Tab::Overview, Role::Viewer, "/", text::THIS_HOST),
    (Tab::Availability, Role::Viewer, "/w/default", text::GPUS),
    (Tab::Report, Role::Viewer, "/report", text::REPORT),
    (Tab::People, Role::Viewer, "/people", text::PEOPLE),
];

/// The navigation of a caller: page, path and name.
fn tabs(caller: &MemberCaller) -> Vec<(Tab, String, Text)> {
    let (base, tabs) = match caller.account.via {
        Via::Local => (String::new(), LOCAL_TABS),
        _ => (workspace_path(caller), TABS),
    };
    let allowed = tabs.iter().filter(|(_, least, ..)| caller.role >= *least);
    allowed
        .map(|(tab, _, path, name)| (*tab, format!("{base}{path}"), *name))
        .collect()
}

/// Path of a workspace's pages. Its name is chosen by people and is encoded.
pub(crate) fn workspace_path(caller: &MemberCaller) -> String {
    format!("/w/{}", encode(&caller.workspace.name))
}

/// Encodes a text as one segment of a path or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    percent_encode(text.as_bytes())
}

fn language(tag: &str) -> Option<Language> {
    let primary = tag.split(['-', ';']).next().unwrap_or_default();
    Language::from_word(&primary.to_ascii_lowercase())
}

/// Formats the time from then to now.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    // A host's clock may be a little ahead of the board's.
    let passed = now.duration_since(then).max(SignedDuration::ZERO);
    short_age(passed.unsigned_abs())
}

/// Formats a time for people: `2026-09-21 14:13 UTC`.
pub(crate) fn utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Redirects to a path of this board after a change, so that loading the page again does not repeat the change. Keeps the
/// cookie that the API's answer sets.
pub(crate) fn see_other(path: &str, answer: impl IntoResponse) -> Response {
    let answer = answer.into_response();
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    for cookie in answer.headers().get_all(header::SET_COOKIE) {
        headers.append(header::SET_COOKIE, cookie.clone());
    }
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    headers.insert(header::LOCATION, path);
    response
}

/// Query of a page that names the path to return to.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Next {
    next: Option<String>,
}

impl Next {
    /// Returns a path of this board: browsers take `//host` and `/\host` for another site.
    pub(crate) fn path(&self) -> &str {
        let path = self.next.as_deref().unwrap_or("/");
        match path == "/" || path.starts_with("/w/") {
            true => path,
            false => "/",
        }
    }
}

/// Turns a failed request into a page. A caller who is not logged in gets the log-in form, at the same URL and with the
/// same status.
pub(crate) fn problem(view: &View, status: StatusCode, detail: &str) -> Response {
    let is_wrong = detail == text::WRONG_PASSWORD.of(Language::English);
    if status == StatusCode::UNAUTHORIZED {
        let message = match is_wrong {
            true => view.t(text::WRONG_PASSWORD),
            false => view.t(text::LOG_IN_FIRST),
        };
        return super::session::log_in_page(view, Some(message));
    }
    let heading = match status {
        StatusCode::FORBIDDEN => text::REFUSED,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => text::NOT_FOUND,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => text::TRY_LATER,
        status if status.is_client_error() => text::INVALID,
        _ => text::FAILED,
    };
    let title = view.t(heading);
    let inside = html! {
        p.say lang="en" { (sanitize(detail)) }
        p { a href="/" { (view.t(text::BACK)) } }
    };
    view.narrow_page(title, &inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_that_of_the_url_then_the_cookie_then_the_browser() {
        let check = |uri: &str, cookie: &str, accept: &str, expected: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            headers.insert(header::ACCEPT_LANGUAGE, accept.parse().unwrap());
            let view = View::new(&uri.parse().unwrap(), &headers, false);
            assert_eq!(view.language.as_str(), expected, "{uri} {cookie} {accept}");
        };
        check("/", "a=b", "de-DE,de;q=0.9", "en");
        check("/", "a=b", "de,ko-KR;q=0.8,en;q=0.7", "ko");
        check("/", "gua_language=en", "ko", "en");
        check("/?lang=ko", "gua_language=en", "en", "ko");
        check("/?lang=xx", "a=b", "ko", "ko");
    }

    #[test]
    fn a_log_in_returns_only_to_pages_of_this_board() {
        let path = |next: &str| {
            Next {
                next: Some(next.to_owned()),
            }
            .path()
            .to_owned()
        };
        assert_eq!(path("/w/default?page=2"), "/w/default?page=2");
        for evil in [
            "//evil",
            "/\\evil",
            "https://evil",
            "",
            "javascript:x",
            "/wx",
        ] {
            assert_eq!(path(evil), "/", "{evil}");
        }
    }
}
