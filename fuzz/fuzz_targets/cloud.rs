//! `cloud.json`: what is read is written and read back the same.
#![no_main]

use arbitrary::Arbitrary;
use gua_wire::cloud::CloudConfig;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct File {
    server: Server,
    fields: [Field; 4],
    more: Vec<(String, Field)>,
    text: Option<Vec<u8>>,
}

#[derive(Arbitrary, Debug)]
enum Server {
    Https(String),
    Any(String),
}

#[derive(Arbitrary, Debug)]
enum Field {
    Text(String),
    Number(i64),
    Null,
    List(Vec<u8>),
}

impl Field {
    fn json(&self) -> String {
        match self {
            Field::Text(text) => format!("{text:?}"),
            Field::Number(number) => number.to_string(),
            Field::Null => "null".to_owned(),
            Field::List(list) => format!("{list:?}"),
        }
    }
}

fuzz_target!(|file: File| {
    let bytes = file.text.unwrap_or_else(|| {
        let server = match &file.server {
            Server::Https(host) => format!("https://{host}"),
            Server::Any(text) => text.clone(),
        };
        let names = ["hostId", "displayName", "agentToken", "tokenPrefix"];
        let mut fields = vec![format!("\"serverUrl\":{server:?}")];
        fields.extend(names.iter().zip(&file.fields).map(|(name, field)| format!("{name:?}:{}", field.json())));
        fields.extend(file.more.iter().map(|(name, field)| format!("{name:?}:{}", field.json())));
        format!("{{{}}}", fields.join(",")).into_bytes()
    });
    if let Ok(config) = CloudConfig::read(&bytes) {
        let _ = (config.shown_name(), config.shown_prefix());
        let written = config.write();
        let again = CloudConfig::read(written.as_bytes()).expect("what was written can be read");
        assert_eq!(again.write(), written);
    }
});
