//! NVML's return codes: numbers, names for scenario files, and the sentences of `nvmlErrorString`.

use std::ffi::CStr;

use serde::{Deserialize, Serialize, Serializer};

/// Return code of a call. Any number is allowed, because drivers have returned numbers that no header lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "toml::Value")]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal, $sentence:literal;)*) => {
        impl Code {
            $(pub const $name: Code = Code($number);)*

            /// The codes that the header lists, without their `NVML_ERROR_` prefix.
            const ALL: &[(Code, &str, &CStr)] = &[$((Code::$name, stringify!($name), $sentence),)*];
        }
    };
}

impl Code {
    /// Returns the name without its `NVML_ERROR_` prefix, for codes that the header lists.
    pub fn name(self) -> Option<&'static str> {
        let found = Code::ALL.iter().find(|(code, ..)| *code == self);
        found.map(|(_, name, _)| *name)
    }

    /// Returns the code for a name, with or without an `NVML_` or `NVML_ERROR_` prefix.
    pub fn from_name(name: &str) -> Option<Code> {
        let short = name.strip_prefix("NVML_").unwrap_or(name);
        let short = short.strip_prefix("ERROR_").unwrap_or(short);
        let found = Code::ALL.iter().find(|(_, name, _)| *name == short);
        found.map(|(code, ..)| *code)
    }

    pub(crate) fn sentence(self) -> &'static CStr {
        let found = Code::ALL.iter().find(|(code, ..)| *code == self);
        found.map_or(c"Unknown Error", |(_, _, sentence)| sentence)
    }
}

codes! {
    SUCCESS = 0, c"Success";
    UNINITIALIZED = 1, c"Uninitialized";
    INVALID_ARGUMENT = 2, c"Invalid Argument";
    NOT_SUPPORTED = 3, c"Not Supported";
    NO_PERMISSION = 4, c"Insufficient Permissions";
    ALREADY_INITIALIZED = 5, c"Already Initialized";
    NOT_FOUND = 6, c"Not Found";
    INSUFFICIENT_SIZE = 7, c"Insufficient Size";
    INSUFFICIENT_POWER = 8, c"Insufficient External Power";
    DRIVER_NOT_LOADED = 9, c"Driver Not Loaded";
    TIMEOUT = 10, c"Timeout";
    IRQ_ISSUE = 11, c"Interrupt Request Issue";
    LIBRARY_NOT_FOUND = 12, c"NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = 13, c"Function Not Found";
    CORRUPTED_INFOROM = 14, c"Corrupted infoROM";
    GPU_IS_LOST = 15, c"GPU is lost";
    RESET_REQUIRED = 16, c"GPU requires restart";
    OPERATING_SYSTEM = 17, c"The operating system has blocked the request.";
    LIB_RM_VERSION_MISMATCH = 18, c"RM has detected an NVML/RM version mismatch.";
    IN_USE = 19, c"In use by another client";
    MEMORY = 20, c"Insufficient Memory";
    NO_DATA = 21, c"No data";
    VGPU_ECC_NOT_SUPPORTED = 22, c"The requested vGPU operation is not available on the target device because ECC is enabled";
    INSUFFICIENT_RESOURCES = 23, c"Insufficient Resources";
    FREQ_NOT_SUPPORTED = 24, c"Requested frequency is not supported";
    ARGUMENT_VERSION_MISMATCH = 25, c"Argument version mismatch";
    DEPRECATED = 26, c"The requested functionality has been deprecated";
    NOT_READY = 27, c"The system is not ready for the request";
    GPU_NOT_FOUND = 28, c"No GPUs were found";
    INVALID_STATE = 29, c"Resource not in correct state to perform requested operation";
    UNKNOWN = 999, c"Unknown Error";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

/// A code in a scenario: its name, or any number.
impl TryFrom<toml::Value> for Code {
    type Error = String;

    fn try_from(written: toml::Value) -> Result<Code, String> {
        let found = match &written {
            toml::Value::Integer(number) => u32::try_from(*number).ok().map(Code),
            toml::Value::String(name) => Code::from_name(name),
            _ => None,
        };
        found.ok_or_else(|| {
            format!("invalid value: {written} is not an NVML code such as 15 or \"GPU_IS_LOST\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_same_name_in_both_directions() {
        for number in (0..40).chain([999]) {
            let code = Code(number);
            if let Some(name) = code.name() {
                assert_eq!(Code::from_name(name), Some(code));
                assert_eq!(Code::from_name(&format!("NVML_ERROR_{name}")), Some(code));
            }
        }
        assert_eq!(Code::from_name("NVML_SUCCESS"), Some(Code::SUCCESS));
        assert_eq!(Code::from_name("nonsense"), None);
    }
}
