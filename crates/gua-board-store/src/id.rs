//! Identifiers of stored objects: random text that is safe in URLs. They identify; they do not authenticate.

use std::fmt;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::random;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Creates a random identifier.
            pub fn random() -> Self {
                let text = data_encoding::BASE32_DNSSEC.encode(&random::<10>());
                Self(format!("{}{text}", $prefix))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                String::column_result(value).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    )*};
}

id! {
    /// Identifies a workspace.
    WorkspaceId = "ws_";
    /// Identifies an account.
    AccountId = "acc_";
    /// Identifies an enrolled host. Its agent receives it at enrolment.
    HostId = "host_";
    /// Identifies an enrolment key.
    EnrolmentKeyId = "key_";
    /// Identifies an API token.
    ApiTokenId = "tok_";
}
