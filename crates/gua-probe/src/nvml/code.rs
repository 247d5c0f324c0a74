//! NVML's return codes, and the reason that each gives for a missing reading.

use gua_model::Missing;
use nvml_wrapper_sys::bindings as sys;

/// An NVML return code other than success. Codes unknown to this program keep their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const INVALID_ARGUMENT: Self =
        Self(sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT);
    pub(crate) const NOT_SUPPORTED: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED);
    pub(crate) const NO_PERMISSION: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION);
    pub(crate) const NOT_FOUND: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND);
    pub(crate) const INSUFFICIENT_SIZE: Self =
        Self(sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
    pub(crate) const FUNCTION_NOT_FOUND: Self =
        Self(sys::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND);
    pub(crate) const GPU_IS_LOST: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST);
    pub(crate) const RESET_REQUIRED: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED);
    pub(crate) const ARGUMENT_VERSION_MISMATCH: Self =
        Self(sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    pub(crate) const DEPRECATED: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED);
    pub(crate) const GPU_NOT_FOUND: Self = Self(sys::nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND);
    /// Not a code of NVML: the call succeeded, but the value that it wrote cannot be true.
    pub(crate) const IMPLAUSIBLE: Self = Self(u32::MAX);

    /// Returns the reason for the readings that the code costs.
    pub(crate) fn missing(self) -> Missing {
        match self {
            Self::NOT_SUPPORTED
            | Self::FUNCTION_NOT_FOUND
            | Self::ARGUMENT_VERSION_MISMATCH
            | Self::DEPRECATED => Missing::Unsupported,
            Self::NO_PERMISSION => Missing::Denied,
            Self::GPU_IS_LOST | Self::RESET_REQUIRED | Self::GPU_NOT_FOUND => Missing::Gone,
            _ => Missing::Failed,
        }
    }

    /// Reports whether an older version of the same function may work.
    pub(crate) fn is_unsupported_version(self) -> bool {
        self.missing() == Missing::Unsupported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_costs_a_reading_for_its_own_reason() {
        for (code, missing) in [
            (3, Missing::Unsupported),
            (13, Missing::Unsupported),
            (25, Missing::Unsupported),
            (4, Missing::Denied),
            (15, Missing::Gone),
            (16, Missing::Gone),
            (999, Missing::Failed),
            (777, Missing::Failed),
        ] {
            assert_eq!(Code(code).missing(), missing, "{code}");
        }
    }
}
