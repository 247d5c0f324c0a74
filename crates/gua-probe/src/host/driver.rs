//! The loaded NVIDIA kernel module. The NVML library must have the same version.

use schemars::JsonSchema;
use serde::Serialize;

use super::{HostRoot, after};

/// Maximum size of a version file that is read.
const LIMIT: u64 = 8 * 1024;
/// Maximum length of a plausible version; real ones have up to 12 characters (`535.261.03`).
const MAX_LENGTH: usize = 32;

/// The loaded kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    pub version: String,
    pub flavour: Flavour,
}

/// NVIDIA's two kernel modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    Open,
    Proprietary,
    /// Only the version could be read.
    Unknown,
}

/// Returns the loaded module; `None` if none is loaded or neither file has a version.
pub fn kernel_module(root: &HostRoot) -> Option<KernelModule> {
    let by_driver = root.parsed("proc/driver/nvidia/version", LIMIT, parse_module);
    let version = || root.parsed("sys/module/nvidia/version", LIMIT, parse_version);
    by_driver.or_else(|| {
        Some(KernelModule {
            version: version()?,
            flavour: Flavour::Unknown,
        })
    })
}

/// Parses `/proc/driver/nvidia/version`.
pub fn parse_module(text: &[u8]) -> Option<KernelModule> {
    let text = String::from_utf8_lossy(text);
    let line = after(&text, "NVRM version:")?;
    let version = line.split_whitespace().find(|word| is_version(word))?;
    Some(KernelModule {
        version: version.to_owned(),
        flavour: match line.contains("Open Kernel Module") {
            true => Flavour::Open,
            false => Flavour::Proprietary,
        },
    })
}

/// Parses `/sys/module/nvidia/version`, which holds only the version.
pub fn parse_version(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim();
    is_version(text).then(|| text.to_owned())
}

/// Matches digits with at least one dot between them.
fn is_version(word: &str) -> bool {
    let numbers = |word: &str| {
        word.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    word.len() <= MAX_LENGTH && word.contains('.') && numbers(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, Flavour)>) {
        let found = parse_module(text.as_bytes());
        let found = found
            .as_ref()
            .map(|module| (module.version.as_str(), module.flavour));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn both_kernel_modules_report_their_version() {
        check(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\nGCC version:  gcc version 12.2.0\n",
            Some(("470.256.02", Flavour::Proprietary)),
        );
        check(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs-builder@x)  Wed Jan\n",
            Some(("570.86.10", Flavour::Open)),
        );
        check(
            "NVRM version: NVIDIA UNIX aarch64 Kernel Module  390.157\n",
            Some(("390.157", Flavour::Proprietary)),
        );
    }

    #[test]
    fn a_file_without_a_version_names_no_module() {
        check("", None);
        check("GCC version:  gcc version 12.2.0\n", None);
        check("NVRM version: none\n", None);
        check(&format!("NVRM version: {}.1\n", "9".repeat(40)), None);
    }

    #[test]
    fn without_the_drivers_own_file_the_modules_version_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        assert_eq!(kernel_module(&root), None);
        std::fs::create_dir_all(root.join("sys/module/nvidia")).unwrap();
        std::fs::write(root.join("sys/module/nvidia/version"), "550.54.14\n").unwrap();
        let module = KernelModule {
            version: "550.54.14".to_owned(),
            flavour: Flavour::Unknown,
        };
        assert_eq!(kernel_module(&root), Some(module));
    }
}
