//! The setting `driver.pids`: the PID namespace of the process IDs that the driver reports.

use serde::{Deserialize, Serialize};

crate::words! {
    /// PID namespace of the process IDs that the driver reports.
    ///
    /// NVML reports the PIDs of the host's namespace. A container usually has its own namespace, where the same number is
    /// missing or, worse, identifies another user's process.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum DriverPids {
        /// The host's, unless the kernel does not say which namespace this is. PIDs are looked up unless this process is
        /// known to be in another namespace.
        #[default]
        Auto = "auto",
        /// The host's. PIDs are looked up only if this process is known to be in that namespace.
        Host = "host",
        /// The namespace of this process. PIDs are always looked up.
        Here = "here",
    }
}
