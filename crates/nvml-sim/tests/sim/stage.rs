//! A separate library for each test, with its scenario beside it.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;
use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario::{Gpu, Scenario};
use tempfile::TempDir;

/// A loaded library. Each test has its own file, so that concurrent tests share nothing.
pub(crate) struct Stage {
    pub(crate) library: Library,
    pub(crate) directory: TempDir,
}

pub(crate) type Device = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) memory: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) stamp: u64,
    pub(crate) value: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessSample {
    pub(crate) pid: u32,
    pub(crate) stamp: u64,
    pub(crate) sm: u32,
    pub(crate) memory: u32,
    pub(crate) encoder: u32,
    pub(crate) decoder: u32,
}

impl Stage {
    /// An initialised library of the newest generation.
    pub(crate) fn new(scenario: &Scenario) -> Stage {
        let stage = Stage::unopened(scenario, Generation::LATEST);
        assert_eq!(stage.init(), 0);
        stage
    }

    pub(crate) fn unopened(scenario: &Scenario, generation: Generation) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let path = driver::install(directory.path(), generation).unwrap();
        scenario
            .write(directory.path().join(nvml_sim::BESIDE))
            .unwrap();
        // SAFETY: this is our own library, and loading it runs no code.
        let library = unsafe { Library::new(path) }.unwrap();
        Stage { library, directory }
    }

    pub(crate) fn scenario_path(&self) -> PathBuf {
        self.directory.path().join(nvml_sim::BESIDE)
    }

    pub(crate) fn rewrite(&self, scenario: &Scenario) {
        scenario.write(self.scenario_path()).unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is only looked up.
        unsafe { self.library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    }

    fn get<T>(&self, name: &str) -> libloading::Symbol<'_, T> {
        // SAFETY: the callers below name functions with the type that the header gives them.
        unsafe { self.library.get(name.as_bytes()) }
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn plain(&self, name: &str) -> u32 {
        let function = self.get::<unsafe extern "C" fn() -> u32>(name);
        // SAFETY: `nvmlInit_v2` and `nvmlShutdown` take nothing.
        unsafe { function() }
    }

    pub(crate) fn init(&self) -> u32 {
        self.plain("nvmlInit_v2")
    }

    pub(crate) fn shutdown(&self) -> u32 {
        self.plain("nvmlShutdown")
    }

    pub(crate) fn count(&self) -> Result<u32, u32> {
        let function =
            self.get::<unsafe extern "C" fn(*mut c_uint) -> u32>("nvmlDeviceGetCount_v2");
        let mut count = 0;
        // SAFETY: one output of the right type.
        answer(unsafe { function(&raw mut count) }, count)
    }

    pub(crate) fn handle(&self, index: u32) -> Result<Device, u32> {
        let function = self.get::<unsafe extern "C" fn(c_uint, *mut Device) -> u32>(
            "nvmlDeviceGetHandleByIndex_v2",
        );
        let mut device = std::ptr::null_mut();
        // SAFETY: one output of the right type.
        answer(unsafe { function(index, &raw mut device) }, device)
    }

    pub(crate) fn by_text(&self, name: &str, key: &CStr) -> Result<Device, u32> {
        let function = self.get::<unsafe extern "C" fn(*const c_char, *mut Device) -> u32>(name);
        let mut device = std::ptr::null_mut();
        // SAFETY: the key ends with a zero byte, and there is one output of the right type.
        answer(unsafe { function(key.as_ptr(), &raw mut device) }, device)
    }

    /// Calls any function that takes a handle and sets one value.
    pub(crate) fn read<T: Default>(&self, name: &str, device: Device) -> Result<T, u32> {
        let function = self.get::<unsafe extern "C" fn(Device, *mut T) -> u32>(name);
        let mut value = T::default();
        // SAFETY: the tests name a T of the header's size.
        let code = unsafe { function(device, &raw mut value) };
        answer(code, value)
    }

    /// Calls any function that takes a handle and a number, and sets one value.
    pub(crate) fn read_of<T: Default>(
        &self,
        name: &str,
        device: Device,
        which: u32,
    ) -> Result<T, u32> {
        let function = self.get::<unsafe extern "C" fn(Device, c_uint, *mut T) -> u32>(name);
        let mut value = T::default();
        // SAFETY: the tests name a T of the header's size.
        let code = unsafe { function(device, which, &raw mut value) };
        answer(code, value)
    }

    pub(crate) fn instance(&self, device: Device, index: u32) -> Result<Device, u32> {
        let name = "nvmlDeviceGetMigDeviceHandleByIndex";
        let function = self.get::<unsafe extern "C" fn(Device, c_uint, *mut Device) -> u32>(name);
        let mut part = std::ptr::null_mut();
        // SAFETY: one output of the right type.
        answer(unsafe { function(device, index, &raw mut part) }, part)
    }

    pub(crate) fn parent(&self, device: Device) -> Result<Device, u32> {
        let name = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle";
        let function = self.get::<unsafe extern "C" fn(Device, *mut Device) -> u32>(name);
        let mut whole = std::ptr::null_mut();
        // SAFETY: one output of the right type.
        answer(unsafe { function(device, &raw mut whole) }, whole)
    }

    pub(crate) fn text(&self, name: &str, device: Device) -> Result<String, u32> {
        let function = self.get::<unsafe extern "C" fn(Device, *mut c_char, c_uint) -> u32>(name);
        let mut buffer = [0; 96];
        // SAFETY: the buffer is as long as stated.
        let code = unsafe { function(device, buffer.as_mut_ptr(), 96) };
        let bytes: Vec<u8> = buffer
            .iter()
            .map(|byte| byte.to_ne_bytes()[0])
            .take_while(|byte| *byte != 0)
            .collect();
        answer(code, String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn version(&self) -> Result<String, u32> {
        let function = self
            .get::<unsafe extern "C" fn(*mut c_char, c_uint) -> u32>("nvmlSystemGetDriverVersion");
        let mut buffer = [0; 80];
        // SAFETY: the buffer is as long as stated.
        let code = unsafe { function(buffer.as_mut_ptr(), 80) };
        let bytes: Vec<u8> = buffer
            .iter()
            .map(|byte| byte.to_ne_bytes()[0])
            .take_while(|byte| *byte != 0)
            .collect();
        answer(code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Raw bytes of a list, its count and its return code.
    pub(crate) fn raw_list(&self, name: &str, device: Device, room: u32) -> (u32, u32, Vec<u8>) {
        let function = self.get::<unsafe extern "C" fn(Device, *mut c_uint, *mut u8) -> u32>(name);
        let mut count = room;
        let mut bytes = vec![0; room as usize * 32];
        // SAFETY: the buffer has room for as many of the largest records.
        let code = unsafe { function(device, &raw mut count, bytes.as_mut_ptr()) };
        (code, count, bytes)
    }

    pub(crate) fn size_query(&self, name: &str, device: Device) -> (u32, u32) {
        let function = self.get::<unsafe extern "C" fn(Device, *mut c_uint, *mut u8) -> u32>(name);
        let mut count = 0;
        // SAFETY: NULL is what is being tested.
        let code = unsafe { function(device, &raw mut count, std::ptr::null_mut()) };
        (code, count)
    }

    /// A list of 24-byte records.
    pub(crate) fn list(&self, name: &str, device: Device) -> Result<Vec<Record>, u32> {
        let function =
            self.get::<unsafe extern "C" fn(Device, *mut c_uint, *mut Record) -> u32>(name);
        let mut records = vec![Record::default(); 128];
        let mut count = 128;
        // SAFETY: the buffer has 128 records.
        let code = unsafe { function(device, &raw mut count, records.as_mut_ptr()) };
        records.truncate(count as usize);
        answer(code, records)
    }

    pub(crate) fn samples(
        &self,
        device: Device,
        kind: u32,
        last_seen: u64,
    ) -> Result<Vec<Sample>, u32> {
        type Get =
            unsafe extern "C" fn(Device, c_uint, u64, *mut c_uint, *mut c_uint, *mut Sample) -> u32;
        let function = self.get::<Get>("nvmlDeviceGetSamples");
        let (mut value_kind, mut count) = (0, 0);
        // SAFETY: NULL requests the size of the buffer.
        let code = unsafe {
            function(
                device,
                kind,
                last_seen,
                &raw mut value_kind,
                &raw mut count,
                std::ptr::null_mut(),
            )
        };
        answer(code, ())?;
        let mut samples = vec![Sample::default(); count as usize];
        // SAFETY: the buffer has as many samples as stated.
        let code = unsafe {
            function(
                device,
                kind,
                last_seen,
                &raw mut value_kind,
                &raw mut count,
                samples.as_mut_ptr(),
            )
        };
        samples.truncate(count as usize);
        assert_eq!(value_kind, 1);
        answer(code, samples)
    }

    pub(crate) fn process_samples(
        &self,
        device: Device,
        room: u32,
        last_seen: u64,
    ) -> (u32, u32, Vec<ProcessSample>) {
        type Get = unsafe extern "C" fn(Device, *mut ProcessSample, *mut c_uint, u64) -> u32;
        let function = self.get::<Get>("nvmlDeviceGetProcessUtilization");
        let mut samples = vec![ProcessSample::default(); room as usize];
        let mut count = room;
        // SAFETY: the buffer has as many samples as stated.
        let code = unsafe { function(device, samples.as_mut_ptr(), &raw mut count, last_seen) };
        samples.truncate(count as usize);
        (code, count, samples)
    }
}

fn answer<T>(code: u32, value: T) -> Result<T, u32> {
    if code == 0 { Ok(value) } else { Err(code) }
}

/// A scenario with these GPUs whose clock is stopped at second `at`.
pub(crate) fn frozen(at: f64, gpus: impl Into<Vec<Gpu>>) -> Scenario {
    let mut scenario = Scenario {
        gpus: gpus.into(),
        ..Scenario::default()
    };
    scenario.clock.at = Some(at);
    scenario.clock.origin_unix_ms = Some(1_700_000_000_000);
    scenario
}

/// Parses the text and stops its clock at second `at`.
pub(crate) fn scene(at: f64, text: &str) -> Scenario {
    let mut scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}"));
    scenario.clock.at = Some(at);
    scenario.clock.origin_unix_ms = Some(1_700_000_000_000);
    scenario
}

pub(crate) fn own_scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}
