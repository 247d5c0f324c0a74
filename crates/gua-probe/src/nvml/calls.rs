//! Calls to the driver about one GPU.

use gua_model::{GpuUuid, Missing, Problem, Reading};

use super::code::Code;
use super::library::{Device, Library, Query};

/// Makes the calls for one GPU and records those that fail. After `GPU_IS_LOST` no further call is made: each may take
/// long, and all would fail.
pub(super) struct Calls<'a> {
    library: &'a Library,
    problems: &'a mut Vec<Problem>,
    pub(super) uuid: &'a GpuUuid,
    index: u32,
    is_lost: bool,
    /// Whether a call has failed. A reading that the GPU does not have is not a failure.
    pub(super) has_failed: bool,
}

impl<'a> Calls<'a> {
    pub(super) fn new(
        library: &'a Library,
        problems: &'a mut Vec<Problem>,
        uuid: &'a GpuUuid,
        index: u32,
    ) -> Self {
        Self {
            library,
            problems,
            uuid,
            index,
            is_lost: false,
            has_failed: false,
        }
    }

    /// Makes one call. `name` is the function's name in problems.
    pub(super) fn call<T>(
        &mut self,
        name: &str,
        call: impl FnOnce(&Library) -> Result<T, Code>,
    ) -> Reading<T> {
        if self.is_lost {
            return Err(Missing::Gone);
        }
        call(self.library).map_err(|code| self.failed(name, code))
    }

    /// Makes a call whose failure costs no reading and is not recorded.
    pub(super) fn optional<T>(
        &mut self,
        call: impl FnOnce(&Library) -> Result<T, Code>,
    ) -> Option<T> {
        match self.is_lost {
            true => None,
            false => call(self.library).ok(),
        }
    }

    /// Makes a call for one value. `convert` rejects an impossible value.
    pub(super) fn read<T, U>(
        &mut self,
        device: Device,
        query: &Query<T>,
        convert: impl FnOnce(T) -> Result<U, Code>,
    ) -> Reading<U> {
        self.call(query.name, |library| convert((query.ask)(library, device)?))
    }

    /// Records a failed call and returns the reason for the readings that it costs.
    pub(super) fn failed(&mut self, name: &str, code: Code) -> Missing {
        self.is_lost |= code == Code::GPU_IS_LOST;
        let gpu = (Some(self.uuid), self.index);
        let why = record(self.problems, self.library, gpu, name, code);
        self.has_failed |= why != Missing::Unsupported;
        why
    }
}

/// Records a failed call about the GPU with this UUID, if it is known, and this index.
pub(super) fn record(
    problems: &mut Vec<Problem>,
    library: &Library,
    (gpu, index): (Option<&GpuUuid>, u32),
    name: &str,
    code: Code,
) -> Missing {
    let why = code.missing();
    if why != Missing::Unsupported {
        problems.push(Problem {
            gpu: gpu.cloned(),
            index: Some(index),
            call: name.to_owned(),
            code: (code != Code::IMPLAUSIBLE).then_some(code.0),
            why,
            text: library.text(code),
        });
    }
    why
}
