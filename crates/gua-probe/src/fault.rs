//! Errors that prevent a whole sample, each with its own message and hint.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Prefix of the message of a failed initialization.
const INIT_FAILED: &str = "NVML initialization failed: ";

/// Why the driver could not be read. It crosses the pipe between the reader child and its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum DriverFault {
    #[error("{INIT_FAILED}{}", self.reason())]
    LibraryNotFound { library: String, detail: String },
    #[error("{INIT_FAILED}{}", self.reason())]
    NotADriver { library: String, detail: String },
    #[error("{INIT_FAILED}{}", self.reason())]
    Init { code: u32, text: String },
    #[error("the driver answered {call} with {text} (NVML code {code})")]
    Lost {
        call: String,
        code: u32,
        text: String,
    },
    #[error("the driver did not answer within {} s", deadline.as_secs_f64())]
    Hung { deadline: Duration },
    /// `how` is a sentence, optionally with the child's last output after a comma.
    #[error("{how}")]
    ReaderDied { how: String },
    #[error("the reader of the driver could not be started: {detail}")]
    NoReader { detail: String },
    #[error("backing off for {} s after this error: {last}", retry_in.as_secs())]
    BackingOff {
        retry_in: Duration,
        last: Box<DriverFault>,
    },
}

/// NVML's return codes at initialisation (`nvmlReturn_t` in `nvml.h`), what they mean, and what the user can do.
const INIT_CODES: [(u32, &str, &str); 5] = [
    (
        NO_PERMISSION,
        "this user may not open the NVIDIA devices",
        "ask for read and write access to /dev/nvidiactl and /dev/nvidia0 (often the group video)",
    ),
    (
        DRIVER_NOT_LOADED,
        "the NVIDIA kernel driver is not loaded",
        "load it with `modprobe nvidia`, and see `dmesg` if that fails",
    ),
    (
        LIBRARY_NOT_FOUND,
        "the NVIDIA driver library was not found",
        INSTALL,
    ),
    (
        LIB_RM_VERSION_MISMATCH,
        "the NVIDIA library and the loaded kernel driver are of different versions",
        "reload the kernel module or reboot: the driver was updated while it was loaded",
    ),
    (
        UNKNOWN,
        "the NVIDIA driver reports an unknown error",
        SEE_LOG,
    ),
];
const NO_PERMISSION: u32 = 4;
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const LIBRARY_NOT_FOUND: u32 = 12;
pub(crate) const LIB_RM_VERSION_MISMATCH: u32 = 18;
const UNKNOWN: u32 = 999;

const INSTALL: &str = "install the NVIDIA driver, or name its library with GUA_NVML_LIBRARY";
const SEE_LOG: &str = "see `dmesg | grep -i -e nvrm -e xid`; a reboot often helps";

/// Returns the meaning of a code at initialisation, and the hint.
fn meaning(code: u32) -> (&'static str, &'static str) {
    let known = INIT_CODES.iter().find(|(known, ..)| *known == code);
    known.map_or(("the NVIDIA driver refused", SEE_LOG), |row| (row.1, row.2))
}

impl DriverFault {
    /// Returns the sentence and the detail of a failed initialization; `None` for other faults.
    fn failed_init(&self) -> Option<(String, String)> {
        match self {
            Self::LibraryNotFound { library, detail } => {
                let sentence = format!("the NVIDIA driver library `{library}` was not found");
                Some((sentence, detail.clone()))
            }
            Self::NotADriver { library, detail } => {
                let sentence = format!("`{library}` is not a usable NVIDIA driver library");
                Some((sentence, detail.clone()))
            }
            Self::Init { code, text } => {
                let detail = format!("{text} (NVML code {code})");
                Some((meaning(*code).0.to_owned(), detail))
            }
            _ => None,
        }
    }

    /// Returns the message without the prefix `INIT_FAILED`.
    pub(crate) fn reason(&self) -> String {
        match self.failed_init() {
            Some((sentence, detail)) => format!("{sentence}. Detail: {detail}"),
            None => self.to_string(),
        }
    }

    /// Returns the message without the details of the library's loader.
    pub fn summary(&self) -> String {
        match self.failed_init() {
            Some((sentence, _)) => format!("{INIT_FAILED}{sentence}"),
            None => self.to_string(),
        }
    }

    /// Returns the code of a failed initialisation.
    pub(crate) fn init_code(&self) -> Option<u32> {
        match self {
            DriverFault::Init { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns what the user can do about it; `None` if there is nothing to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            DriverFault::LibraryNotFound { .. } => Some(INSTALL),
            DriverFault::NotADriver { .. } => {
                Some("name the real libnvidia-ml.so.1 with GUA_NVML_LIBRARY")
            }
            DriverFault::Init { code, .. } => Some(meaning(*code).1),
            DriverFault::Hung { .. } => {
                Some("see `dmesg | grep -i xid`; a hung driver often needs a reboot")
            }
            DriverFault::BackingOff { last, .. } => last.hint(),
            DriverFault::Lost { .. }
            | DriverFault::ReaderDied { .. }
            | DriverFault::NoReader { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_init_error_has_its_own_sentence_and_keeps_its_number() {
        let mut seen = std::collections::HashSet::new();
        for code in [4, 9, 12, 18, 999, 777] {
            let fault = DriverFault::Init {
                code,
                text: "x".to_owned(),
            };
            let sentence = fault.to_string();
            assert!(
                sentence.starts_with("NVML initialization failed: "),
                "{sentence}"
            );
            assert!(
                sentence.ends_with(&format!("(NVML code {code})")),
                "{sentence}"
            );
            assert_eq!(format!("{INIT_FAILED}{}", fault.reason()), sentence);
            assert!(seen.insert(meaning(code).0), "{code} shares its sentence");
            assert!(fault.hint().is_some());
        }
    }
}
