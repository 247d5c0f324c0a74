//! The OpenAPI document of `/api/v1`, generated from the types that the handlers read and write.

use std::sync::LazyLock;

use axum::Json;
use gua_board_store::registry::{ApiToken, AuditEntry, EnrolmentKey, HostUser, Member};
use gua_wire::live::LiveDocument;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::api::{
    AddKey, AddToken, AlertEntry, Before, ChangeSettings, ConfiguredAlert, Credentials, HostDetail,
    HostDocument, Invitation, Join, List, Me, NameCode, NewPassword, Paged, Person, Rename,
    Replace, Reset, RoleBody, Search, SetGroups, SetMaintenance, SettingsDocument, Since,
    WithSecret,
};
use crate::availability::{Availability, Demand};
use crate::call::Call;
use crate::error::{Body, Problem};
use crate::routes::ROUTES;

type Make = fn(&mut SchemaGenerator) -> Schema;

/// Types of one operation. Method, path and access are those of its row in [`ROUTES`].
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    query: Option<Make>,
    body: Option<Make>,
    status: u16,
    answer: Option<Make>,
}

macro_rules! operations {
    (@type) => { None };
    (@type $type:ty) => { Some(|schemas: &mut SchemaGenerator| schemas.subschema_for::<$type>()) };
    ($($method:ident $path:literal $summary:literal
        $(query $query:ty)? $(, body $body:ty)? => $status:literal $($answer:ty)?;)*) => {
        &[$(Operation {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            query: operations!(@type $($query)?),
            body: operations!(@type $($body)?),
            status: $status,
            answer: operations!(@type $($answer)?),
        }),*]
    };
}

/// Operations below `/api/v1/workspaces/{workspace}` are given without that prefix.
const OPERATIONS: &[Operation] = operations! {
    GET "/api/v1/openapi.json" "This document" => 200 Map<String, Value>;
    POST "/api/v1/login" "Log in and receive a session cookie", body Credentials => 200 Me;
    POST "/api/v1/logout" "End the session" => 204;
    POST "/api/v1/join" "Use a set-up or invitation link", body Join => 201 Me;
    POST "/api/v1/reset" "Use a link that resets a password", body Reset => 200 Me;
    POST "/api/v1/password" "Change your password; needs a session", body NewPassword => 200 Me;
    GET "/api/v1/me" "The account that calls, and its workspaces" => 200 Me;
    GET "/hosts" "Hosts with their freshness, by name" query Search => 200 Paged<HostDocument>;
    GET "/hosts/{host}" "A host with its GPUs" => 200 HostDetail;
    PATCH "/hosts/{host}" "Rename a host", body Rename => 204;
    DELETE "/hosts/{host}" "Revoke a host" => 204;
    POST "/hosts/{host}/approve" "Let a host report" => 204;
    POST "/hosts/{host}/replace" "Continue another host with the agent of this one", body Replace => 204;
    GET "/enrolment-refusals" "Hosts that could not enrol in the last day, newest first" => 200 List<AuditEntry>;
    PUT "/hosts/{host}/groups" "Set the groups of members who may use a host", body SetGroups => 204;
    PUT "/hosts/{host}/maintenance" "Start the maintenance of a host", body SetMaintenance => 204;
    DELETE "/hosts/{host}/maintenance" "End the maintenance of a host" => 204;
    GET "/availability" "GPUs by availability group" query Demand => 200 Availability;
    GET "/live" "State of the hosts that changed after a revision" query Since => 200 LiveDocument;
    GET "/enrolment-keys" "Enrolment keys" => 200 List<EnrolmentKey>;
    POST "/enrolment-keys" "Add an enrolment key", body AddKey => 201 WithSecret<EnrolmentKey>;
    DELETE "/enrolment-keys/{key}" "Revoke an enrolment key" => 204;
    GET "/members" "Members, by name" query Search => 200 Paged<Member>;
    PUT "/members/{account}" "Change the role of a member", body RoleBody => 204;
    PUT "/members/{account}/groups" "Set the groups of a member", body SetGroups => 204;
    DELETE "/members/{account}" "Remove a member" => 204;
    POST "/members/{account}/reset" "Add a link that resets the password of a member" => 201 Invitation;
    GET "/members/{account}" "A member with user names and GPUs; for the member and admins, whose views are logged" => 200 Person;
    POST "/members/{account}/names" "Link a user name on a host, or on all hosts, to a member", body HostUser => 204;
    POST "/members/{account}/names/remove" "End such a link", body HostUser => 204;
    POST "/name-codes" "Add a code with which the caller proves a user name on a host" => 201 NameCode;
    POST "/invitations" "Add an invitation", body RoleBody => 201 Invitation;
    GET "/api-tokens" "API tokens; the name is that of the account" query Search => 200 Paged<ApiToken>;
    POST "/api-tokens" "Add an API token; needs a session", body AddToken => 201 WithSecret<ApiToken>;
    DELETE "/api-tokens/{token}" "Revoke an API token" => 204;
    GET "/settings" "Settings of the workspace, and facts about the board" => 200 SettingsDocument;
    PUT "/settings" "Replace the settings of the workspace", body ChangeSettings => 204;
    GET "/audit" "Audit log, newest first" query Before => 200 List<AuditEntry>;
    GET "/alerts/configured" "Configured alerts of the board, and why their messages cannot be sent" => 200 List<ConfiguredAlert>;
    GET "/alerts" "Messages of the board's alerts about hosts of the workspace, newest first" => 200 List<AlertEntry>;
};

/// Path prefix of a workspace.
const WORKSPACE: &str = "/api/v1/workspaces/{workspace}";

static DOCUMENT: LazyLock<Value> = LazyLock::new(build);

pub(crate) fn document(_: &Call) -> Result<Json<&'static Value>, Problem> {
    Ok(Json(&DOCUMENT))
}

fn build() -> Value {
    let at = |settings: &mut SchemaSettings| {
        settings.definitions_path = "/components/schemas".into();
    };
    // Requests and responses have separate schemas: a field with a default is optional in a request, and always present
    // in a response.
    let mut written = SchemaSettings::draft2020_12()
        .with(at)
        .for_serialize()
        .into_generator();
    let mut read = SchemaSettings::draft2020_12()
        .with(at)
        .for_deserialize()
        .into_generator();
    let failed = written.subschema_for::<Body<'_>>();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = operation.path();
        let mut described = json!({
            "operationId": format!("{} {path}", operation.method),
            "summary": operation.summary,
            "parameters": operation.parameters(&mut read),
            "responses": {
                operation.status.to_string(): answer("Success", operation.answer.map(|make| make(&mut written))),
                "default": answer("Refused; `detail` says why", Some(failed.clone())),
            },
            "security": operation.security(),
        });
        if let Some(make) = operation.body {
            described["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": make(&mut read)}}});
        }
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method.to_lowercase()] = described;
    }
    let mut schemas = read.take_definitions(true);
    schemas.extend(written.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {"title": "gua board", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": crate::access::COOKIE},
            },
        },
    })
}

impl Operation {
    fn path(&self) -> String {
        match self.path.starts_with("/api/") {
            true => self.path.to_owned(),
            false => format!("{WORKSPACE}{}", self.path),
        }
    }

    /// Parameters in the path, then those of the query.
    fn parameters(&self, schemas: &mut SchemaGenerator) -> Vec<Value> {
        let path = self.path();
        let names = path
            .split('{')
            .skip(1)
            .filter_map(|part| part.split_once('}'));
        let mut all: Vec<Value> = names
            .map(|(name, _)| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
            .collect();
        let Some(make) = self.query else {
            return all;
        };
        // The definition of the whole query is not referred to by anything else.
        let name = make(schemas)
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|path| path.rsplit('/').next().map(str::to_owned));
        let definition = name
            .and_then(|name| schemas.definitions_mut().remove(&name))
            .unwrap_or_default();
        let properties = definition["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        all.extend(properties.into_iter().map(|(name, mut schema)| {
            // A parameter is left out where a JSON value would be null.
            if let Some(types) = schema["type"].as_array() {
                schema["type"] = types[0].clone();
            }
            let (least, most) = match schema["format"].as_str() {
                Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
                Some("uint" | "uint64") => (json!(0), json!(u64::MAX)),
                _ => (Value::Null, Value::Null),
            };
            if !most.is_null() {
                schema["minimum"] = least;
                schema["maximum"] = most;
            }
            json!({"name": name, "in": "query", "required": false, "schema": schema})
        }));
        all
    }

    fn security(&self) -> Value {
        let path = self.path();
        let mut routes = ROUTES.iter();
        let route = routes.find(|route| route.method == self.method && route.path == path);
        match route.map(|route| route.access) {
            Some(Access::Public | Access::OwnPages) => json!([]),
            _ => json!([{"token": []}, {"session": []}]),
        }
    }
}

fn answer(description: &str, schema: Option<Schema>) -> Value {
    match schema {
        Some(schema) => {
            json!({"description": description, "content": {"application/json": {"schema": schema}}})
        }
        None => json!({"description": description}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_api_is_documented() {
        let documented = OPERATIONS
            .iter()
            .map(|one| format!("{} {}", one.method, one.path()));
        let mut documented: Vec<String> = documented.collect();
        let routes = ROUTES
            .iter()
            .filter(|route| route.path.starts_with("/api/"));
        let mut routes: Vec<String> = routes
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        documented.sort();
        routes.sort();
        assert_eq!(documented, routes);
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let text = DOCUMENT.to_string();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(
                DOCUMENT["components"]["schemas"][name].is_object(),
                "{name}"
            );
        }
        assert!(text.contains("\"detail\"") && text.contains("freeGpus"));
    }
}
