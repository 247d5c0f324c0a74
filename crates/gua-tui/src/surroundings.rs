//! Facts about the host and the processes on its GPUs: CPU, memory, command lines. The program reads them with each
//! sample and does not record them, so past moments do not have them.

use std::collections::HashMap;

use gua_model::{Bytes, Pid, ProcessKey};

/// Everything that was looked up with one sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    pub host: HostLoad,
    pub processes: HashMap<ProcessKey, ProcessUse>,
}

/// Load of the host. Values that could not be read are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// Busy share of all CPUs since the last sample.
    pub cpu_percent: Option<u32>,
    /// Mean number of runnable processes over the last minute, in hundredths.
    pub load: Option<u64>,
    /// Used and total memory.
    pub memory: Option<(Bytes, Bytes)>,
}

/// Resources of the host that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    pub parent: Pid,
    /// Use of the CPUs since the last sample; 100 is one whole CPU.
    pub cpu_percent: Option<u32>,
    pub memory: Bytes,
    /// Empty if it is not visible.
    pub command: String,
}
