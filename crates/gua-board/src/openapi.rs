//! The OpenAPI document of `/api/v1`, generated from the types that the handlers read and write.

use std::sync::LazyLock;

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::call::Call;
use crate::error::{Body, Problem};
use crate::routes::{Route, board_routes};

pub(crate) type Make = fn(&mut SchemaGenerator) -> Schema;

/// Text and types of one operation. Method, path and access are those of its route.
pub(crate) struct Operation {
    pub(crate) summary: &'static str,
    pub(crate) query: Option<Make>,
    pub(crate) body: Option<Make>,
    pub(crate) status: u16,
    pub(crate) answer: Option<Make>,
}

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
    for route in board_routes() {
        let Some(operation) = &route.operation else {
            continue;
        };
        let mut described = json!({
            "operationId": format!("{} {}", route.method, route.path),
            "summary": operation.summary,
            "parameters": parameters(route.path, operation.query, &mut read),
            "responses": {
                operation.status.to_string(): answer("Success", operation.answer.map(|make| make(&mut written))),
                "default": answer("Refused; `detail` says why", Some(failed.clone())),
            },
            "security": security(route),
        });
        if let Some(make) = operation.body {
            described["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": make(&mut read)}}});
        }
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.to_lowercase()] = described;
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

/// Parameters in the path, then those of the query.
fn parameters(path: &str, query: Option<Make>, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let parts = path.split('{').skip(1);
    let names = parts.filter_map(|part| part.split_once('}'));
    let mut all: Vec<Value> = names
        .map(|(name, _)| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let Some(make) = query else {
        return all;
    };
    let schema = make(schemas);
    let properties = schema.get("properties").and_then(Value::as_object).cloned();
    let properties = properties.unwrap_or_default();
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

fn security(route: &Route) -> Value {
    match route.access {
        Access::Public | Access::OwnPages => json!([]),
        _ => json!([{"token": []}, {"session": []}]),
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
        for route in board_routes() {
            let is_api = route.path.starts_with("/api/");
            assert_eq!(route.operation.is_some(), is_api, "{route:?}");
        }
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
