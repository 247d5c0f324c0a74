//! Names of the host, its GPUs and its users.

use std::collections::{BTreeMap, HashMap};

use gua_model::report::PersonNames;
use gua_model::{GpuUuid, Uid};
use gua_query::GpuInfo;
use gua_store::History;

use crate::error::ExportError;

/// Names used in rows.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) host: Option<String>,
    gpus: BTreeMap<GpuUuid, GpuInfo>,
    imported_names: BTreeMap<GpuUuid, String>,
    people: PersonNames,
    users: HashMap<Uid, String>,
}

impl Names {
    pub(crate) fn of_history(history: &History) -> Result<Self, ExportError> {
        let gpus = history.cards()?;
        let gpus = gpus.into_iter().map(|gpu| (gpu.uuid.clone(), gpu));
        let old = history.old_facts()?.unwrap_or_default();
        let imported_names = old
            .gpus
            .into_iter()
            .filter_map(|(gpu, imported)| Some((gpu, imported.name?)));
        Ok(Self {
            host: history.host()?.or(old.host.map(|host| host.name)),
            gpus: gpus.collect(),
            imported_names: imported_names.collect(),
            people: PersonNames::new(history.people()?),
            users: HashMap::new(),
        })
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Last known index of a GPU.
    pub(crate) fn gpu_index(&self, gpu: &GpuUuid) -> Option<i64> {
        self.gpus.get(gpu)?.index.map(i64::from)
    }

    pub(crate) fn gpu_name(&self, gpu: &GpuUuid) -> Option<&str> {
        let own = self.gpus.get(gpu).and_then(|gpu| gpu.name.as_deref());
        own.or_else(|| self.imported_names.get(gpu).map(String::as_str))
    }

    pub(crate) fn gpu_parent(&self, gpu: &GpuUuid) -> Option<&str> {
        self.gpus.get(gpu)?.parent.as_ref().map(GpuUuid::as_str)
    }

    /// Looks up the name of a user; a user without a name is shown by uid, as in reports.
    pub(crate) fn look_up(&mut self, uid: Option<Uid>) {
        if let Some(uid) = uid
            && !self.users.contains_key(&uid)
        {
            let name = self.people.of(Some(uid)).to_owned();
            self.users.insert(uid, name);
        }
    }

    /// Name of a user passed to `learn` before; `None` is the unknown owner.
    pub(crate) fn person(&self, uid: Option<Uid>) -> Option<&str> {
        self.users.get(&uid?).map(String::as_str)
    }

    /// Time of the first own tick of each GPU.
    pub(crate) fn own_since(&self) -> BTreeMap<GpuUuid, jiff::Timestamp> {
        let gpus = self.gpus.iter();
        gpus.map(|(gpu, info)| (gpu.clone(), info.first_seen))
            .collect()
    }
}
