//! Why a question has no answer, as a caller can match on it.

use std::collections::BTreeSet;
use std::error::Error;

use gua_model::GpuUuid;
use serde::{Deserialize, Serialize};

use crate::gpu::ListedGpus;

/// Why records could not be read.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum RecordsError {
    /// A writer appeared during a read that assumed that there was none. Another attempt succeeds.
    #[error("the history changed while it was read; try again")]
    Changed,
    /// The visitor stopped the visit.
    #[error("reading was stopped")]
    Stopped,
    /// An error of the store, which the store's crate defines.
    #[error("{0}")]
    Read(
        #[source]
        #[serde(with = "as_text")]
        Box<dyn Error + Send + Sync>,
    ),
}

impl RecordsError {
    pub fn read(error: impl Error + Send + Sync + 'static) -> Self {
        RecordsError::Read(Box::new(error))
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum QueryError {
    #[error("{0}")]
    Records(#[from] RecordsError),
    /// The source cannot be opened; with the error of the code that opened it.
    #[error("{0}")]
    Open(
        #[source]
        #[serde(with = "as_text")]
        Box<dyn Error + Send + Sync>,
    ),
    #[error("no GPU `{asked}`{}", all_of(known))]
    NoSuchGpu { asked: String, known: ListedGpus },
    #[error("several GPUs begin with `{asked}`: {found}")]
    AmbiguousGpu { asked: String, found: ListedGpus },
    #[error("no user `{person}` in this history; it has {}", some_of(known))]
    NoSuchPerson {
        person: String,
        known: BTreeSet<String>,
    },
    #[error("there is no run `{asked}`")]
    NoSuchRun { asked: String },
    #[error("several runs begin with `{asked}`: {}", found.join(", "))]
    AmbiguousRun { asked: String, found: Vec<String> },
    #[error("there are no runs yet")]
    NoRuns,
    #[error("the tick at {at} has no reading of {gpu}, which it covers; please report this")]
    Inconsistent { at: jiff::Timestamp, gpu: GpuUuid },
}

fn all_of(known: &ListedGpus) -> String {
    match known.is_empty() {
        true => ": this host has no GPUs".to_owned(),
        false => format!("; this host has {known}"),
    }
}

/// The first names, and how many more there are.
fn some_of(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 20;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.iter().take(SHOWN).map(String::as_str);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        "nobody by name".clone_into(&mut text);
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Serialises an error of another crate as its message with its causes. Its type is lost on the way.
mod as_text {
    use std::error::Error;

    use gua_model::chain::chain;
    use serde::{Deserialize as _, Deserializer, Serializer};

    type Boxed = Box<dyn Error + Send + Sync>;

    pub(super) fn serialize<S: Serializer>(error: &Boxed, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&chain(error.as_ref()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Boxed, D::Error> {
        String::deserialize(from).map(Boxed::from)
    }
}

/// Text of a user for an error message: escaped and cut.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
