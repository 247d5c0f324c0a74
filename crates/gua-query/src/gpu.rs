//! Choosing a GPU by index, UUID or the beginning of a UUID.

use std::collections::BTreeSet;
use std::fmt;

use gua_model::{Gpu, GpuUuid};
use serde::{Deserialize, Serialize};

use crate::error::{QueryError, quoted};
use crate::records::{GpuInfo, ImportedGpu};

/// A GPU, as far as it can be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedGpu {
    /// `None` for a GPU of which only the index is known.
    pub uuid: Option<GpuUuid>,
    pub index: Option<u32>,
    pub name: Option<String>,
    /// The GPU that this one is a MIG instance of.
    pub parent: Option<GpuUuid>,
}

impl From<&Gpu> for NamedGpu {
    fn from(gpu: &Gpu) -> Self {
        Self {
            uuid: Some(gpu.uuid.clone()),
            index: Some(gpu.index),
            name: gpu.name.clone().ok(),
            parent: gpu.place.parent().cloned(),
        }
    }
}

impl From<&GpuInfo> for NamedGpu {
    fn from(info: &GpuInfo) -> Self {
        Self {
            uuid: Some(info.uuid.clone()),
            index: info.index,
            name: info.name.clone(),
            parent: info.parent.clone(),
        }
    }
}

impl From<(&GpuUuid, &ImportedGpu)> for NamedGpu {
    fn from((uuid, gpu): (&GpuUuid, &ImportedGpu)) -> Self {
        Self {
            uuid: Some(uuid.clone()),
            index: gpu.index,
            name: gpu.name.clone(),
            parent: None,
        }
    }
}

/// Names of GPUs for an error message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedGpus(Vec<String>);

impl ListedGpus {
    fn of<'a>(gpus: impl Iterator<Item = &'a NamedGpu>) -> Self {
        let name = |gpu: &NamedGpu| match (&gpu.uuid, gpu.index) {
            (Some(uuid), Some(index)) if gpu.parent.is_none() => format!("{index} ({uuid})"),
            (Some(uuid), _) => uuid.to_string(),
            (None, Some(index)) => index.to_string(),
            (None, None) => "?".to_owned(),
        };
        Self(gpus.map(name).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ListedGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let shown = self.0.iter().take(SHOWN).map(String::as_str);
        f.write_str(&shown.collect::<Vec<_>>().join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// The shortest beginning of a UUID that is accepted: a shorter one would be a guess.
const MIN_PREFIX_LENGTH: usize = 3;

/// The one GPU that `asked` names. `known` lists all GPUs, the likeliest first where several have one index.
pub fn choose(asked: &str, known: &[NamedGpu]) -> Result<NamedGpu, QueryError> {
    let number = asked.parse::<u32>().ok();
    let exact = |gpu: &&NamedGpu| {
        let is_it = gpu.uuid.as_ref().is_some_and(|uuid| uuid.as_str() == asked);
        // A MIG instance has the index of its parent.
        is_it || (number.is_some() && gpu.index == number && gpu.parent.is_none())
    };
    if let Some(gpu) = known.iter().find(exact) {
        return Ok(gpu.clone());
    }
    let begins = |gpu: &&NamedGpu| {
        let uuid = gpu.uuid.as_ref().map_or("", GpuUuid::as_str);
        asked.len() >= MIN_PREFIX_LENGTH && uuid.starts_with(asked)
    };
    let mut found = known.iter().filter(begins);
    match (found.next(), found.next()) {
        (Some(gpu), None) => Ok(gpu.clone()),
        (Some(_), Some(_)) => Err(QueryError::AmbiguousGpu {
            asked: quoted(asked),
            found: ListedGpus::of(known.iter().filter(begins)),
        }),
        _ => Err(QueryError::NoSuchGpu {
            asked: quoted(asked),
            known: ListedGpus::of(known.iter()),
        }),
    }
}

/// The UUIDs of all GPUs that `asked` names, each with its MIG instances; `None` where nothing is asked for.
pub(crate) fn choose_all(
    asked: &[String],
    known: &[NamedGpu],
) -> Result<Option<BTreeSet<GpuUuid>>, QueryError> {
    if asked.is_empty() {
        return Ok(None);
    }
    let mut chosen = BTreeSet::new();
    for text in asked {
        let gpu = choose(text, known)?;
        let instances = known
            .iter()
            .filter(|other| other.parent.is_some() && other.parent == gpu.uuid);
        chosen.extend(instances.filter_map(|instance| instance.uuid.clone()));
        chosen.extend(gpu.uuid);
    }
    Ok(Some(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(texts: &[(&str, u32, Option<&str>)]) -> Vec<NamedGpu> {
        let gpu = |(uuid, index, parent): &(&str, u32, Option<&str>)| NamedGpu {
            uuid: Some(uuid.parse().unwrap()),
            index: Some(*index),
            name: None,
            parent: parent.map(|parent| parent.parse().unwrap()),
        };
        texts.iter().map(gpu).collect()
    }

    fn check(asked: &str, expected: Result<&str, &str>) {
        let known = gpus(&[
            ("GPU-aa1", 0, None),
            ("GPU-aa2", 1, None),
            ("MIG-b", 1, Some("GPU-aa2")),
        ]);
        let found = choose(asked, &known);
        let found = found
            .as_ref()
            .map(|gpu| gpu.uuid.as_ref().unwrap().as_str());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => {
                let message = error.to_string();
                assert!(message.contains(part), "{message}");
            }
            (found, expected) => panic!("{asked}: {found:?} and not {expected:?}"),
        }
    }

    #[test]
    fn a_gpu_is_named_by_its_index_its_uuid_or_the_beginning_of_one() {
        check("0", Ok("GPU-aa1"));
        check("1", Ok("GPU-aa2"));
        check("GPU-aa2", Ok("GPU-aa2"));
        check("MIG", Ok("MIG-b"));
        check(
            "GPU-aa",
            Err("several GPUs begin with `GPU-aa`: 0 (GPU-aa1), 1 (GPU-aa2)"),
        );
        check(
            "G",
            Err("no GPU `G`; this host has 0 (GPU-aa1), 1 (GPU-aa2), MIG-b"),
        );
        check("7", Err("no GPU `7`"));
        check("\u{1b}[2J", Err("`\\u{1b}[2J`"));
        let nobody = choose("0", &[]).unwrap_err();
        assert_eq!(nobody.to_string(), "no GPU `0`: this host has no GPUs");
    }
}
