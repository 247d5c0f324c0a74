//! The details of each check, as `gua doctor --json` has them. A key never changes its meaning; null means unknown.

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::collector::Collector;
use crate::host::driver::Flavour;
use crate::host::namespace::PidNamespace;

/// Declares the details: one line for each check, with the keys of its JSON object.
macro_rules! details {
    ($(#[$doc:meta])* $($Check:ident { $($key:ident: $type:ty),* })*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        #[serde(untagged)]
        pub enum Details { $($Check { $($key: $type),* },)* }
    };
}

details! {
    /// Facts behind the verdict. The keys depend on the check, and never change their meaning.
    Os { platform: String, release: String, system: String }
    Clock { booted_at: Option<String>, now: String, synchronized: Option<bool>, time_zone: String }
    Container { driver_pids: &'static str, engines: Vec<&'static str>, pid_namespace: PidNamespace, pids_looked_up: bool }
    Hidepid { cap_sys_ptrace: bool, gid: Option<u32>, hidepid: Option<&'static str> }
    NvidiaDevices { control_device_paths: Vec<String>, gpu_device_paths: Vec<String>, paths: Vec<String> }
    NvidiaSmi {
        found: bool, gpu_lines: Vec<String>, mig_lines: Vec<String>, path: String, returncode: Option<i32>,
        stderr: String, stdout: String, timed_out: bool
    }
    NoNvidiaSmi { found: bool }
    Nvml {
        device_count: Option<usize>, driver_version: Option<String>, error: Option<String>, initialized: Option<bool>,
        loadable: Option<bool>
    }
    DriverMatch {
        kernel_module: Option<String>, kernel_module_flavour: Option<Flavour>, mismatch: Option<bool>,
        nvml_driver: Option<String>
    }
    UnreadableGpus { gpus: usize, problems: Vec<GpuProblem> }
    Utilisation { invalid: Vec<String>, unsupported: Vec<String> }
    MemoryErrors { gpus_with_ecc: usize, gpus_with_errors: Vec<GpuErrors> }
    XidErrors { gpus_read: usize, gpus_with_errors: Vec<GpuXid> }
    Persistence { off: Vec<u32>, on: Vec<u32> }
    Mig { gpus_in_mig_mode: Vec<u32>, gpus_without_instances: Vec<u32>, instances: usize }
    UnifiedMemory { gpus_without_memory: Vec<u32> }
    ProcessOwners {
        gone: usize, gpus_without_process_list: Vec<String>, owned: usize, owner_unknown: usize, processes: usize
    }
    Collectors { running: Option<Vec<Collector>> }
    Config { problems: Vec<String> }
    Alerts { alerts: usize, problems: Vec<String> }
    Claims { directory: Option<String>, remove_ipc: Option<bool> }
    BoardLink {
        answer: Option<&'static str>, board: Option<String>, is_encrypted: Option<bool>, secret_is_private: Option<bool>
    }
    DefaultDb {
        error: Option<String>, exists: Option<bool>, is_default: bool, is_file: Option<bool>, parent_exists: Option<bool>,
        parent_writable: Option<bool>, path: String, size_bytes: Option<u64>
    }
    DiskSpace {
        directory: Option<String>, file_system: Option<String>, free_bytes: Option<u64>, free_inodes: Option<u64>,
        is_network: Option<bool>, is_read_only: Option<bool>, total_bytes: Option<u64>
    }
    Skipped {}
}

/// A failed call of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuProblem {
    pub call: String,
    /// The driver's code; null for errors that the driver did not report itself.
    pub code: Option<u32>,
    pub gpu_uuid: Option<String>,
    pub index: Option<u32>,
    pub text: String,
    pub why: &'static str,
}

/// Memory errors of a GPU since the driver was loaded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuErrors {
    pub index: u32,
    pub uncorrected: u64,
}

/// The last Xid error of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuXid {
    pub at: jiff::Timestamp,
    pub code: u16,
    pub index: u32,
}
