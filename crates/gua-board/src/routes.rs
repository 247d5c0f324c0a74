//! The table of routes: method, path, required access and handler. The router is built from it, so that no route can exist
//! without its row, and a test calls every row as every kind of caller.

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use gua_board_store::registry::{ApiToken, AuditEntry, EnrolmentKey, HostUser, Member, Role};
use gua_wire::live::LiveDocument;
use schemars::{JsonSchema as _, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::access::{Access, enforce};
use crate::api::alerts::{AlertEntry, ConfiguredAlert};
use crate::api::hosts::{HostDetail, HostDocument, Rename, Replace, SetMaintenance, Since};
use crate::api::keys::AddKey;
use crate::api::members::{Before, Invitation, RoleBody};
use crate::api::people::{NameCode, Person};
use crate::api::session::{Credentials, Join, Me, NewPassword, Reset};
use crate::api::settings::{ChangeSettings, SettingsDocument};
use crate::api::tokens::AddToken;
use crate::api::{List, Paged, Search, SetGroups, WithSecret};
use crate::app::App;
use crate::availability::{Availability, Demand};
use crate::call::{Handler, Task, answer, run};
use crate::error::Problem;
use crate::openapi::Operation;
use crate::request::observe;
use crate::{agent, api, local, openapi, operation, pages};

/// One row of the table.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    /// Documentation of a route of the API.
    pub(crate) operation: Option<Operation>,
    filter: MethodFilter,
    handler: Kind,
}

/// Kind of a route's handler.
enum Kind {
    /// A function that runs on a thread for blocking work.
    Blocking(Handler),
    Task(Task),
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
            operation: None,
            filter: MethodFilter::$method,
            handler: routes!(@$kind $handler $(, $page)?),
        }),*]
    };
    (@blocking $handler:path) => { routes!(@answer |call| Ok($handler(call)?.into_response()), None, false) };
    (@form $handler:path, $page:literal) => {
        routes!(@answer |call| Ok($handler(call)?.into_response()), Some($page), false)
    };
    (@password $handler:path) => { routes!(@answer $handler, None, true) };
    (@password $handler:path, $page:literal) => { routes!(@answer $handler, Some($page), true) };
    (@answer $answer:expr, $page:expr, $hashes_password:literal) => {
        Kind::Blocking(Handler { answer: $answer, page: $page, hashes_password: $hashes_password })
    };
    (@task $handler:path) => {
        Kind::Task(|call, body| Box::pin(async { Ok($handler(call, body).await?.into_response()) }))
    };
}

/// Routes of the API below a path, with their documentation. A handler of the kind `json` returns what the row names, or nothing.
macro_rules! api_routes {
    ($prefix:literal: $($method:ident $path:literal $access:expr => $kind:ident $handler:path: $summary:literal
        $(query $query:ty)? $(, body $body:ty)? => $status:literal $($answer:ty)?;)*) => {
        &[$(Route {
            method: stringify!($method),
            path: concat!($prefix, $path),
            access: $access,
            operation: Some(Operation {
                summary: $summary,
                query: api_routes!(@query $($query)?),
                body: api_routes!(@type $($body)?),
                status: $status,
                answer: api_routes!(@type $($answer)?),
            }),
            filter: MethodFilter::$method,
            handler: api_routes!(@$kind $handler => $status $($answer)?),
        }),*]
    };
    (@query) => { None };
    (@query $type:ty) => { Some(|schemas: &mut SchemaGenerator| <$type>::json_schema(schemas)) };
    (@type) => { None };
    (@type $type:ty) => { Some(|schemas: &mut SchemaGenerator| schemas.subschema_for::<$type>()) };
    (@blocking $handler:path => $($answer:tt)*) => { routes!(@blocking $handler) };
    (@password $handler:path => $($answer:tt)*) => { routes!(@password $handler) };
    (@json $handler:path => $status:literal) => {
        routes!(@answer |call| Ok(no_content($handler(call)?)), None, false)
    };
    (@json $handler:path => $status:literal $answer:ty) => {
        routes!(@answer |call| Ok(document::<$answer>($status, &$handler(call)?)), None, false)
    };
}

fn no_content((): ()) -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn document<T: Serialize>(status: u16, answer: &T) -> Response {
    let status = StatusCode::from_u16(status).expect("the status of a row exists");
    (status, Json(answer)).into_response()
}

const VIEWER: Access = Access::Role(Role::Viewer);
const MEMBER: Access = Access::Role(Role::Member);
const ADMIN: Access = Access::Role(Role::Admin);

/// Routes of every server.
const SHARED: &[Route] = routes! {
    GET "/healthz" Access::Public => task operation::health;
    GET "/readyz" Access::Public => blocking operation::ready;
    GET "/assets/{file}" Access::Public => blocking pages::asset::asset;
    GET "/w/{workspace}" VIEWER => blocking pages::availability::availability;
    GET "/w/{workspace}/events" VIEWER => task pages::event::events;
    GET "/w/{workspace}/hosts/{host}" VIEWER => blocking pages::host::host;
    GET "/w/{workspace}/hosts/{host}/gpus/{gpu}" VIEWER => blocking pages::host::gpu;
};

/// Routes of the API of every server.
const SHARED_API: &[Route] = api_routes! { "/api/v1/workspaces/{workspace}":
    GET "/hosts" VIEWER => json api::hosts::hosts: "Hosts with their freshness, by name" query Search => 200 Paged<HostDocument>;
    GET "/availability" VIEWER => json api::hosts::availability: "GPUs by availability group" query Demand => 200 Availability;
    GET "/hosts/{host}" VIEWER => json api::hosts::host: "A host with its GPUs" => 200 HostDetail;
    GET "/live" VIEWER => json api::hosts::live: "State of the hosts that changed after a revision" query Since => 200 LiveDocument;
};

/// Pages of a board, and its metrics.
const PAGES: &[Route] = routes! {
    GET "/metrics" Access::Operator => blocking operation::metrics;
    GET "/" Access::Account => blocking pages::session::home;
    GET "/login" Access::Public => blocking pages::session::log_in_form;
    POST "/login" Access::OwnPages => password pages::session::log_in;
    POST "/logout" Access::OwnPages => form api::session::log_out, "/login";
    GET "/join" Access::Public => blocking pages::session::join_form;
    POST "/join" Access::OwnPages => password api::session::join, "/";
    GET "/reset" Access::Public => blocking pages::session::reset_form;
    POST "/reset" Access::OwnPages => password api::session::reset, "/";
    GET "/oidc/login" Access::Public => blocking pages::sign_on::begin_sign_on;
    POST "/oidc/join" Access::OwnPages => blocking pages::sign_on::join_by_sign_on;
    GET "/oidc/callback" Access::Public => blocking pages::sign_on::finish_sign_on;
    POST "/password" Access::Account => password api::session::change_password, "/";
    GET "/demo/{link}" Access::Public => blocking pages::session::enter_demo;
    GET "/screen/{screen}" Access::Screen => blocking pages::availability::screen;
    GET "/screen/{screen}/events" Access::Screen => task pages::event::events;
    GET "/w/{workspace}/servers" ADMIN => blocking pages::servers::servers;
    POST "/w/{workspace}/servers/{host}/rename" ADMIN => form api::hosts::rename_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/revoke" ADMIN => form api::hosts::revoke_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/approve" ADMIN => form api::hosts::approve_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/replace" ADMIN => form api::hosts::replace_host, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/groups" ADMIN => form api::hosts::set_host_groups, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/maintenance" ADMIN => form api::hosts::set_maintenance, "/w/{workspace}/servers";
    POST "/w/{workspace}/servers/{host}/maintenance/end" ADMIN => form api::hosts::end_maintenance, "/w/{workspace}/servers";
    POST "/w/{workspace}/keys" ADMIN => blocking pages::servers::add_key;
    POST "/w/{workspace}/keys/{key}/revoke" ADMIN => form api::keys::revoke_enrolment_key, "/w/{workspace}/servers";
    GET "/w/{workspace}/members" ADMIN => blocking pages::admin::members;
    POST "/w/{workspace}/members/{account}/role" ADMIN => form api::members::set_role, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/groups" ADMIN => form api::members::set_member_groups, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/remove" ADMIN => form api::members::remove_member, "/w/{workspace}/members";
    POST "/w/{workspace}/members/{account}/reset" ADMIN => blocking pages::admin::reset_member;
    GET "/w/{workspace}/me" VIEWER => blocking pages::person::me;
    GET "/w/{workspace}/members/{account}" VIEWER => blocking pages::person::member;
    POST "/w/{workspace}/members/{account}/names" ADMIN => form api::people::link_name, "/w/{workspace}/members/{account}";
    POST "/w/{workspace}/members/{account}/names/remove" ADMIN => form api::people::unlink_name, "/w/{workspace}/members/{account}";
    POST "/w/{workspace}/me/code" VIEWER => blocking pages::person::add_name_code;
    POST "/w/{workspace}/invitations" ADMIN => blocking pages::admin::invite;
    GET "/w/{workspace}/tokens" MEMBER => blocking pages::admin::tokens;
    POST "/w/{workspace}/tokens" MEMBER => blocking pages::admin::add_token;
    POST "/w/{workspace}/tokens/{token}/revoke" MEMBER => form api::tokens::revoke_api_token, "/w/{workspace}/tokens";
    GET "/w/{workspace}/settings" ADMIN => blocking pages::settings::settings;
    POST "/w/{workspace}/settings" ADMIN => form api::settings::set_settings, "/w/{workspace}/settings";
    GET "/w/{workspace}/audit" ADMIN => blocking pages::admin::audit;
};

/// The contract with agents.
const AGENTS: &[Route] = routes! {
    POST "/agent/v1/enrollments/claim" Access::Public => task agent::claim::claim;
    POST "/agent/v1/names" Access::Agent => task agent::names::prove_name;
    POST "/agent/v1/token" Access::Agent => blocking agent::claim::new_token;
    POST "/agent/v1/observations" Access::Agent => task agent::observations::observe;
    POST "/agent/v1/live" Access::Agent => task agent::observations::live;
    GET "/agent/v1/stream" Access::Agent => task agent::stream::stream;
    GET "/agent/v1/archives" Access::Agent => blocking agent::archives::list_archives;
    POST "/agent/v1/archives" Access::Agent => task agent::archives::put_archive;
    DELETE "/agent/v1/archives" Access::Agent => blocking agent::archives::prune_archives;
};

/// Routes of a board's API that are not about one workspace.
const API: &[Route] = api_routes! { "/api/v1":
    GET "/openapi.json" Access::Public => blocking openapi::document: "This document" => 200 Map<String, Value>;
    POST "/login" Access::OwnPages => password api::session::log_in: "Log in and receive a session cookie", body Credentials => 200 Me;
    POST "/logout" Access::OwnPages => blocking api::session::log_out: "End the session" => 204;
    POST "/join" Access::OwnPages => password api::session::join: "Use a set-up or invitation link", body Join => 201 Me;
    POST "/reset" Access::OwnPages => password api::session::reset: "Use a link that resets a password", body Reset => 200 Me;
    POST "/password" Access::Account => password api::session::change_password: "Change your password; needs a session", body NewPassword => 200 Me;
    GET "/me" Access::Account => json api::session::me: "The account that calls, and its workspaces" => 200 Me;
};

/// Routes of a board's API about one workspace.
const WORKSPACE_API: &[Route] = api_routes! { "/api/v1/workspaces/{workspace}":
    PATCH "/hosts/{host}" ADMIN => json api::hosts::rename_host: "Rename a host", body Rename => 204;
    DELETE "/hosts/{host}" ADMIN => json api::hosts::revoke_host: "Revoke a host" => 204;
    POST "/hosts/{host}/approve" ADMIN => json api::hosts::approve_host: "Let a host report" => 204;
    POST "/hosts/{host}/replace" ADMIN => json api::hosts::replace_host: "Continue another host with the agent of this one", body Replace => 204;
    GET "/enrolment-refusals" ADMIN => json api::keys::enrolment_refusals: "Hosts that could not enrol in the last day, newest first" => 200 List<AuditEntry>;
    PUT "/hosts/{host}/groups" ADMIN => json api::hosts::set_host_groups: "Set the groups of members who may use a host", body SetGroups => 204;
    PUT "/hosts/{host}/maintenance" ADMIN => json api::hosts::set_maintenance: "Start the maintenance of a host", body SetMaintenance => 204;
    DELETE "/hosts/{host}/maintenance" ADMIN => json api::hosts::end_maintenance: "End the maintenance of a host" => 204;
    GET "/enrolment-keys" ADMIN => json api::keys::enrolment_keys: "Enrolment keys" => 200 List<EnrolmentKey>;
    POST "/enrolment-keys" ADMIN => json api::keys::add_enrolment_key: "Add an enrolment key", body AddKey => 201 WithSecret<EnrolmentKey>;
    DELETE "/enrolment-keys/{key}" ADMIN => json api::keys::revoke_enrolment_key: "Revoke an enrolment key" => 204;
    GET "/members" ADMIN => json api::members::members: "Members, by name" query Search => 200 Paged<Member>;
    PUT "/members/{account}" ADMIN => json api::members::set_role: "Change the role of a member", body RoleBody => 204;
    PUT "/members/{account}/groups" ADMIN => json api::members::set_member_groups: "Set the groups of a member", body SetGroups => 204;
    DELETE "/members/{account}" ADMIN => json api::members::remove_member: "Remove a member" => 204;
    POST "/members/{account}/reset" ADMIN => json api::members::reset_member: "Add a link that resets the password of a member" => 201 Invitation;
    GET "/members/{account}" VIEWER => json api::people::person: "A member with user names and GPUs; for the member and admins, whose views are logged" => 200 Person;
    POST "/members/{account}/names" ADMIN => json api::people::link_name: "Link a user name on a host, or on all hosts, to a member", body HostUser => 204;
    POST "/members/{account}/names/remove" ADMIN => json api::people::unlink_name: "Unlink a member from a user name of one host or of all", body HostUser => 204;
    POST "/name-codes" VIEWER => json api::people::add_name_code: "Add a code with which the caller proves a user name on a host" => 201 NameCode;
    POST "/invitations" ADMIN => json api::members::invite: "Add an invitation", body RoleBody => 201 Invitation;
    GET "/api-tokens" MEMBER => json api::tokens::api_tokens: "API tokens; the name is that of the account" query Search => 200 Paged<ApiToken>;
    POST "/api-tokens" MEMBER => json api::tokens::add_api_token: "Add an API token; needs a session", body AddToken => 201 WithSecret<ApiToken>;
    DELETE "/api-tokens/{token}" MEMBER => json api::tokens::revoke_api_token: "Revoke an API token" => 204;
    GET "/settings" ADMIN => json api::settings::settings: "Settings of the workspace, and facts about the board" => 200 SettingsDocument;
    PUT "/settings" ADMIN => json api::settings::set_settings: "Replace the settings of the workspace", body ChangeSettings => 204;
    GET "/audit" ADMIN => json api::members::audit_log: "Audit log, newest first" query Before => 200 List<AuditEntry>;
    GET "/alerts/configured" ADMIN => json api::alerts::configured_alerts: "Configured alerts of the board, and why their messages cannot be sent" => 200 List<ConfiguredAlert>;
    GET "/alerts" ADMIN => json api::alerts::alerts: "Messages of the board's alerts about hosts of the workspace, newest first" => 200 List<AlertEntry>;
};

/// Routes of a server without accounts: nothing can be changed through them.
const LOCAL: &[Route] = routes! {
    GET "/" Access::Account => blocking pages::local::overview;
    GET "/report" Access::Account => blocking pages::local::report;
    GET "/people" Access::Account => blocking pages::local::people;
    GET "/people/{name}" Access::Account => blocking pages::local::person;
    GET "/gpu_status" Access::Account => blocking local::gpu_status;
    GET "/cluster_status" Access::Account => blocking local::cluster_status;
};

/// All routes of a board.
pub fn board_routes() -> impl Iterator<Item = &'static Route> {
    let all = [SHARED, SHARED_API, PAGES, AGENTS, API, WORKSPACE_API];
    all.into_iter().flatten()
}

/// Builds the router.
pub fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    let routes: Vec<&Route> = match app.options.local {
        Some(_) => [SHARED, SHARED_API, LOCAL].into_iter().flatten().collect(),
        None => board_routes().collect(),
    };
    for route in routes {
        let handler = match route.handler {
            Kind::Blocking(handler) => {
                on(route.filter, answer).with_state((Arc::clone(app), handler))
            }
            Kind::Task(task) => on(route.filter, run).with_state((Arc::clone(app), task)),
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
