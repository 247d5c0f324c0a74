//! The device files of the NVIDIA driver.

use super::HostRoot;

/// NVIDIA's device files in `/dev`, each list sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// One file per GPU: `nvidia` and a number.
    pub gpus: Vec<String>,
    /// All others: `nvidiactl`, `nvidia-uvm`, `nvidia-caps` and so on.
    pub controls: Vec<String>,
}

impl Devices {
    /// Returns all of them, sorted.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = [self.gpus.clone(), self.controls.clone()].concat();
        paths.sort();
        paths
    }
}

/// Lists the device files. A directory that cannot be read has none.
pub fn devices(root: &HostRoot) -> Devices {
    let mut devices = Devices::default();
    let Ok(entries) = std::fs::read_dir(root.join("dev")) else {
        return devices;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("nvidia")) else {
            continue;
        };
        let path = root.join("dev").join(name).to_string_lossy().into_owned();
        if is_gpu(name) {
            devices.gpus.push(path);
        } else {
            devices.controls.push(path);
        }
    }
    devices.gpus.sort();
    devices.controls.sort();
    devices
}

/// Reports whether a device file of this name belongs to a GPU.
pub fn is_gpu(name: &str) -> bool {
    name.strip_prefix("nvidia").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_distinguished_from_control_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        assert_eq!(devices(&root), Devices::default());
        std::fs::create_dir(root.join("dev")).unwrap();
        for name in [
            "nvidia1",
            "nvidia0",
            "nvidiactl",
            "nvidia-uvm",
            "null",
            "xnvidia2",
            "nvidia2x",
        ] {
            std::fs::write(root.join("dev").join(name), "").unwrap();
        }
        let found = devices(&root);
        let names = |paths: &[String]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.rsplit('/').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&found.gpus), ["nvidia0", "nvidia1"]);
        assert_eq!(
            names(&found.controls),
            ["nvidia-uvm", "nvidia2x", "nvidiactl"]
        );
        assert_eq!(
            names(&found.paths()),
            ["nvidia-uvm", "nvidia0", "nvidia1", "nvidia2x", "nvidiactl"]
        );
    }
}
