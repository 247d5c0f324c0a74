//! The table of routes: method, path, required access and handler. The router is built from it, so that no route can exist
//! without its row, and a test calls every row as every kind of caller.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use gua_board_store::registry::Role;

use crate::access::{Access, enforce};
use crate::app::App;
use crate::error::Problem;
use crate::request::observe;
use crate::{agent, api, local, openapi, operation, pages};

/// One row of the table.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    handler: fn() -> MethodRouter<Arc<App>>,
}

impl fmt::Debug for Route {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({:?})", self.method, self.path, self.access)
    }
}

macro_rules! routes {
    ($($method:ident $path:literal $access:expr => $handler:expr;)*) => {
        &[$(Route {
            method: stringify!($method),
            path: $path,
            access: $access,
            handler: || routes!(@$method)($handler),
        }),*]
    };
    (@GET) => { get };
    (@POST) => { post };
    (@PUT) => { put };
    (@PATCH) => { patch };
    (@DELETE) => { delete };
}

const VIEWER: Access = Access::Role(Role::Viewer);
const MEMBER: Access = Access::Role(Role::Member);
const ADMIN: Access = Access::Role(Role::Admin);

/// All routes of a board.
pub const ROUTES: &[Route] = routes! {
    GET "/healthz" Access::Public => operation::health;
    GET "/readyz" Access::Public => operation::ready;
    GET "/metrics" Access::Operator => operation::metrics;

    GET "/" Access::Account => pages::home;
    GET "/assets/{file}" Access::Public => pages::asset;
    GET "/login" Access::Public => pages::log_in_form;
    POST "/login" Access::OwnPages => pages::log_in;
    POST "/logout" Access::OwnPages => pages::log_out;
    GET "/join" Access::Public => pages::join_form;
    POST "/join" Access::OwnPages => pages::join;
    GET "/reset" Access::Public => pages::reset_form;
    POST "/reset" Access::OwnPages => pages::reset;
    GET "/oidc/login" Access::Public => pages::begin_sign_on;
    POST "/oidc/join" Access::OwnPages => pages::join_by_sign_on;
    GET "/oidc/callback" Access::Public => pages::finish_sign_on;
    POST "/password" Access::Account => pages::change_password;
    GET "/demo/{link}" Access::Public => pages::enter_demo;
    GET "/screen/{screen}" Access::Screen => pages::screen;
    GET "/screen/{screen}/events" Access::Screen => pages::events;
    GET "/w/{workspace}" VIEWER => pages::availability;
    GET "/w/{workspace}/events" VIEWER => pages::events;
    GET "/w/{workspace}/hosts/{host}" VIEWER => pages::host;
    GET "/w/{workspace}/hosts/{host}/gpus/{gpu}" VIEWER => pages::gpu;
    GET "/w/{workspace}/servers" ADMIN => pages::servers;
    POST "/w/{workspace}/servers/{host}/rename" ADMIN => pages::rename_host;
    POST "/w/{workspace}/servers/{host}/revoke" ADMIN => pages::revoke_host;
    POST "/w/{workspace}/servers/{host}/approve" ADMIN => pages::approve_host;
    POST "/w/{workspace}/servers/{host}/replace" ADMIN => pages::replace_host;
    POST "/w/{workspace}/servers/{host}/groups" ADMIN => pages::set_host_groups;
    POST "/w/{workspace}/servers/{host}/maintenance" ADMIN => pages::set_maintenance;
    POST "/w/{workspace}/servers/{host}/maintenance/end" ADMIN => pages::end_maintenance;
    POST "/w/{workspace}/keys" ADMIN => pages::add_key;
    POST "/w/{workspace}/keys/{key}/revoke" ADMIN => pages::revoke_enrolment_key;
    GET "/w/{workspace}/members" ADMIN => pages::members;
    POST "/w/{workspace}/members/{account}/role" ADMIN => pages::set_role;
    POST "/w/{workspace}/members/{account}/groups" ADMIN => pages::set_member_groups;
    POST "/w/{workspace}/members/{account}/remove" ADMIN => pages::remove_member;
    POST "/w/{workspace}/members/{account}/reset" ADMIN => pages::reset_member;
    GET "/w/{workspace}/me" VIEWER => pages::me;
    GET "/w/{workspace}/members/{account}" VIEWER => pages::member;
    POST "/w/{workspace}/members/{account}/names" ADMIN => pages::link_name;
    POST "/w/{workspace}/members/{account}/names/remove" ADMIN => pages::unlink_name;
    POST "/w/{workspace}/me/code" VIEWER => pages::add_name_code;
    POST "/w/{workspace}/invitations" ADMIN => pages::invite;
    GET "/w/{workspace}/tokens" MEMBER => pages::tokens;
    POST "/w/{workspace}/tokens" MEMBER => pages::add_token;
    POST "/w/{workspace}/tokens/{token}/revoke" MEMBER => pages::revoke_api_token;
    GET "/w/{workspace}/settings" ADMIN => pages::settings;
    POST "/w/{workspace}/settings" ADMIN => pages::set_settings;
    GET "/w/{workspace}/audit" ADMIN => pages::audit;

    POST "/agent/v1/enrollments/claim" Access::Public => agent::claim;
    POST "/agent/v1/names" Access::Agent => agent::prove_name;
    POST "/agent/v1/token" Access::Agent => agent::new_token;
    POST "/agent/v1/observations" Access::Agent => agent::observe;
    POST "/agent/v1/live" Access::Agent => agent::live;
    GET "/agent/v1/stream" Access::Agent => agent::stream;
    GET "/agent/v1/archives" Access::Agent => agent::list_archives;
    POST "/agent/v1/archives" Access::Agent => agent::put_archive;
    DELETE "/agent/v1/archives" Access::Agent => agent::prune_archives;

    GET "/api/v1/openapi.json" Access::Public => openapi::document;
    POST "/api/v1/login" Access::OwnPages => api::log_in;
    POST "/api/v1/logout" Access::OwnPages => api::log_out;
    POST "/api/v1/join" Access::OwnPages => api::join;
    POST "/api/v1/reset" Access::OwnPages => api::reset;
    POST "/api/v1/password" Access::Account => api::change_password;
    GET "/api/v1/me" Access::Account => api::me;
    GET "/api/v1/workspaces/{workspace}/hosts" VIEWER => api::hosts;
    PATCH "/api/v1/workspaces/{workspace}/hosts/{host}" ADMIN => api::rename_host;
    DELETE "/api/v1/workspaces/{workspace}/hosts/{host}" ADMIN => api::revoke_host;
    POST "/api/v1/workspaces/{workspace}/hosts/{host}/approve" ADMIN => api::approve_host;
    POST "/api/v1/workspaces/{workspace}/hosts/{host}/replace" ADMIN => api::replace_host;
    GET "/api/v1/workspaces/{workspace}/enrolment-refusals" ADMIN => api::enrolment_refusals;
    PUT "/api/v1/workspaces/{workspace}/hosts/{host}/groups" ADMIN => api::set_host_groups;
    PUT "/api/v1/workspaces/{workspace}/hosts/{host}/maintenance" ADMIN => api::set_maintenance;
    DELETE "/api/v1/workspaces/{workspace}/hosts/{host}/maintenance" ADMIN => api::end_maintenance;
    GET "/api/v1/workspaces/{workspace}/availability" VIEWER => api::availability;
    GET "/api/v1/workspaces/{workspace}/hosts/{host}" VIEWER => api::host;
    GET "/api/v1/workspaces/{workspace}/live" VIEWER => api::live;
    GET "/api/v1/workspaces/{workspace}/enrolment-keys" ADMIN => api::enrolment_keys;
    POST "/api/v1/workspaces/{workspace}/enrolment-keys" ADMIN => api::add_enrolment_key;
    DELETE "/api/v1/workspaces/{workspace}/enrolment-keys/{key}" ADMIN => api::revoke_enrolment_key;
    GET "/api/v1/workspaces/{workspace}/members" ADMIN => api::members;
    PUT "/api/v1/workspaces/{workspace}/members/{account}" ADMIN => api::set_role;
    PUT "/api/v1/workspaces/{workspace}/members/{account}/groups" ADMIN => api::set_member_groups;
    DELETE "/api/v1/workspaces/{workspace}/members/{account}" ADMIN => api::remove_member;
    POST "/api/v1/workspaces/{workspace}/members/{account}/reset" ADMIN => api::reset_member;
    GET "/api/v1/workspaces/{workspace}/members/{account}" VIEWER => api::person;
    POST "/api/v1/workspaces/{workspace}/members/{account}/names" ADMIN => api::link_name;
    POST "/api/v1/workspaces/{workspace}/members/{account}/names/remove" ADMIN => api::unlink_name;
    POST "/api/v1/workspaces/{workspace}/name-codes" VIEWER => api::add_name_code;
    POST "/api/v1/workspaces/{workspace}/invitations" ADMIN => api::invite;
    GET "/api/v1/workspaces/{workspace}/api-tokens" MEMBER => api::api_tokens;
    POST "/api/v1/workspaces/{workspace}/api-tokens" MEMBER => api::add_api_token;
    DELETE "/api/v1/workspaces/{workspace}/api-tokens/{token}" MEMBER => api::revoke_api_token;
    GET "/api/v1/workspaces/{workspace}/settings" ADMIN => api::settings;
    PUT "/api/v1/workspaces/{workspace}/settings" ADMIN => api::set_settings;
    GET "/api/v1/workspaces/{workspace}/audit" ADMIN => api::audit_log;
    GET "/api/v1/workspaces/{workspace}/alerts" ADMIN => api::alerts;
};

/// Routes of a server without accounts: nothing can be changed through them.
pub const LOCAL_ROUTES: &[Route] = routes! {
    GET "/healthz" Access::Public => operation::health;
    GET "/readyz" Access::Public => operation::ready;
    GET "/assets/{file}" Access::Public => pages::asset;

    GET "/" Access::Account => pages::overview;
    GET "/report" Access::Account => pages::report;
    GET "/people" Access::Account => pages::people;
    GET "/people/{name}" Access::Account => pages::person;
    GET "/gpu_status" Access::Account => local::gpu_status;
    GET "/cluster_status" Access::Account => local::cluster_status;

    GET "/w/{workspace}" VIEWER => pages::availability;
    GET "/w/{workspace}/events" VIEWER => pages::events;
    GET "/w/{workspace}/hosts/{host}" VIEWER => pages::host;
    GET "/w/{workspace}/hosts/{host}/gpus/{gpu}" VIEWER => pages::gpu;
    GET "/api/v1/workspaces/{workspace}/hosts" VIEWER => api::hosts;
    GET "/api/v1/workspaces/{workspace}/availability" VIEWER => api::availability;
    GET "/api/v1/workspaces/{workspace}/hosts/{host}" VIEWER => api::host;
    GET "/api/v1/workspaces/{workspace}/live" VIEWER => api::live;
};

/// Builds the router.
pub fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    let routes = match app.local {
        Some(_) => LOCAL_ROUTES,
        None => ROUTES,
    };
    for route in routes {
        let state = (Arc::clone(app), route.access);
        let handler = (route.handler)().route_layer(from_fn_with_state(state, enforce));
        router = router.route(route.path, handler);
    }
    router
        .fallback(|| async { Problem::NotFound("path") })
        .method_not_allowed_fallback(|| async { Problem::MethodNotAllowed })
        .layer(from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app))
}
