//! Names of the host and its GPUs.

use std::collections::BTreeMap;

use gua_model::GpuUuid;
use gua_query::{GpuInfo, Records, RecordsError};

/// Names used in rows.
#[derive(Debug, Default)]
pub(crate) struct Names {
    host: Option<String>,
    gpus: BTreeMap<GpuUuid, GpuInfo>,
    imported_names: BTreeMap<GpuUuid, String>,
}

impl Names {
    pub(crate) fn of(records: &dyn Records) -> Result<Self, RecordsError> {
        let gpus = records.gpus()?;
        let gpus = gpus.into_iter().map(|gpu| (gpu.uuid.clone(), gpu));
        let imported = records.imported_facts()?.unwrap_or_default();
        let imported_names = imported.gpus.into_iter();
        let imported_names = imported_names.filter_map(|(gpu, facts)| Some((gpu, facts.name?)));
        Ok(Self {
            host: records.host()?.or(imported.host.map(|host| host.name)),
            gpus: gpus.collect(),
            imported_names: imported_names.collect(),
        })
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Last known index of a GPU.
    pub(crate) fn gpu_index(&self, gpu: &GpuUuid) -> Option<u32> {
        self.gpus.get(gpu)?.index
    }

    pub(crate) fn gpu_name(&self, gpu: &GpuUuid) -> Option<&str> {
        let own = self.gpus.get(gpu).and_then(|gpu| gpu.name.as_deref());
        own.or_else(|| self.imported_names.get(gpu).map(String::as_str))
    }

    pub(crate) fn gpu_parent(&self, gpu: &GpuUuid) -> Option<&str> {
        self.gpus.get(gpu)?.parent.as_ref().map(GpuUuid::as_str)
    }
}
