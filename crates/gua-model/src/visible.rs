//! GPUs assigned to a program: `CUDA_VISIBLE_DEVICES`, parsed as CUDA parses it.

use std::collections::BTreeSet;

use crate::id::GpuUuid;
use crate::sample::{Gpu, Place};

/// A list of GPUs. As in CUDA, entries after the first invalid one are ignored, and an empty list selects no GPU.
///
/// Numbers are interpreted as the driver's indices. CUDA does the same with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and always
/// if all GPUs are of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleDevices {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Number(u32),
    /// A UUID, or a prefix of one.
    Uuid(String),
}

impl VisibleDevices {
    pub fn parse(text: &str) -> Self {
        Self {
            entries: text.split(',').map_while(Entry::parse).collect(),
        }
    }

    /// Parses a list that a person wrote for this program and not for CUDA: `None` if an entry is neither a number nor
    /// a UUID.
    pub fn parse_whole(text: &str) -> Option<Self> {
        let entries: Option<Vec<Entry>> = text.split(',').map(Entry::parse).collect();
        entries.map(|entries| Self { entries })
    }

    /// Returns the selected GPUs. A GPU in MIG mode is replaced by its instances.
    pub fn gpus(&self, gpus: &[Gpu]) -> BTreeSet<GpuUuid> {
        let mut selected = BTreeSet::new();
        for entry in &self.entries {
            let named: Vec<&Gpu> = gpus.iter().filter(|gpu| entry.names(gpu)).collect();
            if named.is_empty() {
                break;
            }
            for gpu in named {
                match gpu.place.counts() {
                    true => selected.extend([gpu.uuid.clone()]),
                    false => selected.extend(instances(gpu, gpus)),
                }
            }
        }
        selected
    }
}

fn instances<'a>(parent: &'a Gpu, gpus: &'a [Gpu]) -> impl Iterator<Item = GpuUuid> + 'a {
    gpus.iter()
        .filter(|gpu| gpu.place.parent() == Some(&parent.uuid))
        .map(|gpu| gpu.uuid.clone())
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse() {
            Ok(number) => Some(Entry::Number(number)),
            Err(_) => is_uuid(text).then(|| Entry::Uuid(text.to_owned())),
        }
    }

    fn names(&self, gpu: &Gpu) -> bool {
        match self {
            Entry::Number(number) => {
                gpu.index == *number && !matches!(gpu.place, Place::Instance { .. })
            }
            Entry::Uuid(begin) => gpu.uuid.as_str().starts_with(begin.as_str()),
        }
    }
}

/// Whether a text begins like the UUID of a GPU or a MIG instance.
pub fn is_uuid(text: &str) -> bool {
    text.starts_with("GPU-") || text.starts_with("MIG-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Missing;

    fn check(text: &str, expected: &str) {
        let gpu = |uuid: &str, index| {
            Gpu::without_readings(uuid.parse().unwrap(), index, Missing::Failed)
        };
        let mut divided = gpu("GPU-cc", 2);
        divided.place = Place::Parent { instances: 1 };
        let mut part = gpu("MIG-dd", 2);
        part.place = Place::Instance {
            parent: "GPU-cc".parse().unwrap(),
            gpu_instance: Ok(1),
            compute_instance: Ok(0),
            slice: Err(Missing::Failed),
        };
        let gpus = [gpu("GPU-aa", 0), gpu("GPU-bb", 1), divided, part];
        let selected = VisibleDevices::parse(text).gpus(&gpus);
        let selected: Vec<&str> = selected.iter().map(GpuUuid::as_str).collect();
        assert_eq!(selected.join(" "), expected, "{text:?}");
    }

    #[test]
    fn a_list_is_read_up_to_the_first_entry_that_names_no_gpu() {
        check("0", "GPU-aa");
        check(" 1 , 0", "GPU-aa GPU-bb");
        check("0,-1,1", "GPU-aa");
        check("0,7,1", "GPU-aa");
        check("GPU-b,0", "GPU-aa GPU-bb");
        check("", "");
        check("-1", "");
        check("NoDevFiles", "");
    }

    #[test]
    fn a_list_for_us_is_whole_or_none() {
        for text in ["0", " 1 , 0", "GPU-b,0", "MIG-dd"] {
            let whole = VisibleDevices::parse_whole(text);
            assert_eq!(whole, Some(VisibleDevices::parse(text)), "{text:?}");
        }
        for text in ["", "foo", "0,foo", "-1", "0,", "1.5"] {
            assert_eq!(VisibleDevices::parse_whole(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_gpu_in_mig_mode_means_its_instances() {
        check("2", "MIG-dd");
        check("MIG-dd", "MIG-dd");
    }
}
