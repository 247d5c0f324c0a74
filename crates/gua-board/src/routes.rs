//! The table of routes: method, path, required access and handler. The router is built from it, so that no route can exist
//! without its row, and a test calls every row as every kind of caller.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse as _;
use axum::routing::{MethodFilter, MethodRouter, on};
use gua_board_store::registry::Role;

use crate::access::{Access, enforce};
use crate::app::App;
use crate::call::{Handler, answer};
use crate::error::Problem;
use crate::request::observe;
use crate::{agent, api, local, openapi, operation, pages};

/// One row of the table.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    filter: MethodFilter,
    handler: Kind,
}

/// Kind of a route's handler.
enum Kind {
    /// A function that runs on a thread for blocking work.
    Blocking(Handler),
    /// A blocking function that changes something for a form, and the page to which the browser is then redirected.
    Form(Handler, &'static str),
    /// An async function, which runs as a task of the runtime.
    Task(fn(MethodFilter) -> MethodRouter<Arc<App>>),
}

impl fmt::Debug for Route {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({:?})", self.method, self.path, self.access)
    }
}

macro_rules! routes {
    ($($method:ident $path:literal $access:expr => $kind:ident $handler:path $(, $page:literal)?;)*) => {
        &[$(Route {
            method: stringify!($method),
            path: $path,
            access: $access,
            filter: MethodFilter::$method,
            handler: routes!(@$kind $handler $(, $page)?),
        }),*]
    };
    (@blocking $handler:path) => {
        Kind::Blocking(|call| Ok($handler(call)?.into_response()))
    };
    (@form $handler:path, $page:literal) => {
        Kind::Form(|call| Ok($handler(call)?.into_response()), $page)
    };
    (@task $handler:path) => { Kind::Task(|filter| on(filter, $handler)) };
}

const VIEWER: Access = Access::Role(Role::Viewer);
const MEMBER: Access = Access::Role(Role::Member);
const ADMIN: Access = Access::Role(Role::Admin);

/// All routes of a board.
pub const ROUTES: &[Route] = routes! {
    GET "/healthz" Access::Public => task operation::health;
    GET "/readyz" Access::Public => blocking operation::ready;
    GET "/metrics" Access::Operator => blocking operation::metrics;

    GET "/" Access::Account => blocking pages::home;
    GET "/assets/{file}" Access::Public => blocking pages::asset;
    GET "/login" Access::Public => blocking pages::log_in_form;
    POST "/login" Access::OwnPages => task pages::log_in;
    POST "/logout" Access::OwnPages => form api::log_out, "/login";
    GET "/join" Access::Public => blocking pages::join_form;
    POST "/join" Access::OwnPages => task pages::join;
    GET "/reset" Access::Public => blocking pages::reset_form;
    POST "/reset" Access::OwnPages => task pages::reset;
    GET "/oidc/login" Access::Public => blocking pages::begin_sign_on;
    POST "/oidc/join" Access::OwnPages => blocking pages::join_by_sign_on;
    GET "/oidc/callback" Access::Public => blocking pages::finish_sign_on;
    POST "/password" Access::Account => task pages::change_password;
    GET "/demo/{link}" Access::Public => blocking pages::enter_demo;
    GET "/screen/{screen}" Access::Screen => blocking pages::screen;
    GET "/screen/{screen}/events" Access::Screen => task pages::events;
    GET "/w/{workspace}" VIEWER => blocking pages::availability;
    GET "/w/{workspace}/events" VIEWER => task pages::events;
    GET "/w/{workspace}/hosts/{host}" VIEWER => blocking pages::host;
    GET "/w/{workspace}/hosts/{host}/gpus/{gpu}" VIEWER => blocking pages::gpu;
    GET "/w/{workspace}/servers" ADMIN => blocking pages::servers;
    POST "/w/{workspace}/servers/{host}/rename" ADMIN => form api::rename_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/revoke" ADMIN => form api::revoke_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/approve" ADMIN => form api::approve_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/replace" ADMIN => form api::replace_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/groups" ADMIN => form api::set_host_groups, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/maintenance" ADMIN => form api::set_maintenance, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/maintenance/end" ADMIN => form api::end_maintenance, "/w/{workspace}/servers";
    POST "/w/{workspace}/keys" ADMIN => blocking pages::add_key;
    POST "/w/{workspace}/keys/{key}/revoke" ADMIN => form api::revoke_enrolment_key, "/w/{workspace}/servers";
    GET "/w/{workspace}/members" ADMIN => blocking pages::members;
    POST "/w/{workspace}/members/{account}/role" ADMIN => form api::set_role, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/groups" ADMIN => form api::set_member_groups, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/remove" ADMIN => form api::remove_member, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/reset" ADMIN => blocking pages::reset_member;
    GET "/w/{workspace}/me" VIEWER => blocking pages::me;
    GET "/w/{workspace}/members/{account}" VIEWER => blocking pages::member;
    POST "/w/{workspace}/members/{account}/names" ADMIN => form api::link_name, "/w/{workspace}/members/{account}";
    POST "/w/{workspace}/members/{account}/names/remove" ADMIN => form api::unlink_name, "/w/{workspace}/members/{account}";
    POST "/w/{workspace}/me/code" VIEWER => blocking pages::add_name_code;
    POST "/w/{workspace}/invitations" ADMIN => blocking pages::invite;
    GET "/w/{workspace}/tokens" MEMBER => blocking pages::tokens;
    POST "/w/{workspace}/tokens" MEMBER => blocking pages::add_token;
    POST "/w/{workspace}/tokens/{token}/revoke" MEMBER => form api::revoke_api_token, "/w/{workspace}/tokens";
    GET "/w/{workspace}/settings" ADMIN => blocking pages::settings;
    POST "/w/{workspace}/settings" ADMIN => form api::set_settings, "/w/{workspace}/settings";
    GET "/w/{workspace}/audit" ADMIN => blocking pages::audit;

    POST "/agent/v1/enrollments/claim" Access::Public => task agent::claim;
    POST "/agent/v1/names" Access::Agent => task agent::prove_name;
    POST "/agent/v1/token" Access::Agent => blocking agent::new_token;
    POST "/agent/v1/observations" Access::Agent => task agent::observe;
    POST "/agent/v1/live" Access::Agent => task agent::live;
    GET "/agent/v1/stream" Access::Agent => task agent::stream;
    GET "/agent/v1/archives" Access::Agent => blocking agent::list_archives;
    POST "/agent/v1/archives" Access::Agent => task agent::put_archive;
    DELETE "/agent/v1/archives" Access::Agent => blocking agent::prune_archives;

    GET "/api/v1/openapi.json" Access::Public => blocking openapi::document;
    POST "/api/v1/login" Access::OwnPages => task api::log_in;
    POST "/api/v1/logout" Access::OwnPages => blocking api::log_out;
    POST "/api/v1/join" Access::OwnPages => task api::join;
    POST "/api/v1/reset" Access::OwnPages => task api::reset;
    POST "/api/v1/password" Access::Account => task api::change_password;
    GET "/api/v1/me" Access::Account => blocking api::me;
    GET "/api/v1/workspaces/{workspace}/hosts" VIEWER => blocking api::hosts;
    PATCH "/api/v1/workspaces/{workspace}/hosts/{host}" ADMIN => blocking api::rename_host;
    DELETE "/api/v1/workspaces/{workspace}/hosts/{host}" ADMIN => blocking api::revoke_host;
    POST "/api/v1/workspaces/{workspace}/hosts/{host}/approve" ADMIN => blocking api::approve_host;
    POST "/api/v1/workspaces/{workspace}/hosts/{host}/replace" ADMIN => blocking api::replace_host;
    GET "/api/v1/workspaces/{workspace}/enrolment-refusals" ADMIN => blocking api::enrolment_refusals;
    PUT "/api/v1/workspaces/{workspace}/hosts/{host}/groups" ADMIN => blocking api::set_host_groups;
    PUT "/api/v1/workspaces/{workspace}/hosts/{host}/maintenance" ADMIN => blocking api::set_maintenance;
    DELETE "/api/v1/workspaces/{workspace}/hosts/{host}/maintenance" ADMIN => blocking api::end_maintenance;
    GET "/api/v1/workspaces/{workspace}/availability" VIEWER => blocking api::availability;
    GET "/api/v1/workspaces/{workspace}/hosts/{host}" VIEWER => blocking api::host;
    GET "/api/v1/workspaces/{workspace}/live" VIEWER => blocking api::live;
    GET "/api/v1/workspaces/{workspace}/enrolment-keys" ADMIN => blocking api::enrolment_keys;
    POST "/api/v1/workspaces/{workspace}/enrolment-keys" ADMIN => blocking api::add_enrolment_key;
    DELETE "/api/v1/workspaces/{workspace}/enrolment-keys/{key}" ADMIN => blocking api::revoke_enrolment_key;
    GET "/api/v1/workspaces/{workspace}/members" ADMIN => blocking api::members;
    PUT "/api/v1/workspaces/{workspace}/members/{account}" ADMIN => blocking api::set_role;
    PUT "/api/v1/workspaces/{workspace}/members/{account}/groups" ADMIN => blocking api::set_member_groups;
    DELETE "/api/v1/workspaces/{workspace}/members/{account}" ADMIN => blocking api::remove_member;
    POST "/api/v1/workspaces/{workspace}/members/{account}/reset" ADMIN => blocking api::reset_member;
    GET "/api/v1/workspaces/{workspace}/members/{account}" VIEWER => blocking api::person;
    POST "/api/v1/workspaces/{workspace}/members/{account}/names" ADMIN => blocking api::link_name;
    POST "/api/v1/workspaces/{workspace}/members/{account}/names/remove" ADMIN => blocking api::unlink_name;
    POST "/api/v1/workspaces/{workspace}/name-codes" VIEWER => blocking api::add_name_code;
    POST "/api/v1/workspaces/{workspace}/invitations" ADMIN => blocking api::invite;
    GET "/api/v1/workspaces/{workspace}/api-tokens" MEMBER => blocking api::api_tokens;
    POST "/api/v1/workspaces/{workspace}/api-tokens" MEMBER => blocking api::add_api_token;
    DELETE "/api/v1/workspaces/{workspace}/api-tokens/{token}" MEMBER => blocking api::revoke_api_token;
    GET "/api/v1/workspaces/{workspace}/settings" ADMIN => blocking api::settings;
    PUT "/api/v1/workspaces/{workspace}/settings" ADMIN => blocking api::set_settings;
    GET "/api/v1/workspaces/{workspace}/audit" ADMIN => blocking api::audit_log;
    GET "/api/v1/workspaces/{workspace}/alerts/configured" ADMIN => blocking api::configured_alerts;
    GET "/api/v1/workspaces/{workspace}/alerts" ADMIN => blocking api::alerts;
};

/// Routes of a server without accounts: nothing can be changed through them.
pub const LOCAL_ROUTES: &[Route] = routes! {
    GET "/healthz" Access::Public => task operation::health;
    GET "/readyz" Access::Public => blocking operation::ready;
    GET "/assets/{file}" Access::Public => blocking pages::asset;

    GET "/" Access::Account => blocking pages::overview;
    GET "/report" Access::Account => blocking pages::report;
    GET "/people" Access::Account => blocking pages::people;
    GET "/people/{name}" Access::Account => blocking pages::person;
    GET "/gpu_status" Access::Account => blocking local::gpu_status;
    GET "/cluster_status" Access::Account => blocking local::cluster_status;

    GET "/w/{workspace}" VIEWER => blocking pages::availability;
    GET "/w/{workspace}/events" VIEWER => task pages::events;
    GET "/w/{workspace}/hosts/{host}" VIEWER => blocking pages::host;
    GET "/w/{workspace}/hosts/{host}/gpus/{gpu}" VIEWER => blocking pages::gpu;
    GET "/api/v1/workspaces/{workspace}/hosts" VIEWER => blocking api::hosts;
    GET "/api/v1/workspaces/{workspace}/availability" VIEWER => blocking api::availability;
    GET "/api/v1/workspaces/{workspace}/hosts/{host}" VIEWER => blocking api::host;
    GET "/api/v1/workspaces/{workspace}/live" VIEWER => blocking api::live;
};

/// Builds the router.
pub fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    let routes = match app.options.local {
        Some(_) => LOCAL_ROUTES,
        None => ROUTES,
    };
    for route in routes {
        let blocking = |handler: Handler, page| {
            on(route.filter, answer).with_state((Arc::clone(app), handler, page))
        };
        let handler = match route.handler {
            Kind::Blocking(handler) => blocking(handler, None),
            Kind::Form(handler, page) => blocking(handler, Some(page)),
            Kind::Task(handler) => handler(route.filter),
        };
        let state = (Arc::clone(app), route.access);
        let handler = handler.route_layer(from_fn_with_state(state, enforce));
        router = router.route(route.path, handler);
    }
    router
        .fallback(|| async { Problem::NotFound("path") })
        .method_not_allowed_fallback(|| async { Problem::MethodNotAllowed })
        .layer(from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app))
}
