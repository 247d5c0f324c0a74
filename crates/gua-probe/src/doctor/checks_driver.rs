//! Checks of the driver: its device files, `nvidia-smi` as an independent source, the library, and whether their
//! versions match.

use std::collections::BTreeSet;

use crate::fault::{DRIVER_NOT_LOADED, DriverFault, LIB_RM_VERSION_MISMATCH, LIBRARY_NOT_FOUND};
use gua_model::{Place, Sample};

use gua_model::text::sanitize;

use super::check::{Finding, Status, count, shorten};
use super::details::Details;
use super::facts::{Facts, NamedLibrary};
use super::program::End;

/// Maximum length of an external error text in a summary.
const SHORT: usize = 160;

const REBOOT: &str = "Reboot, or reload the NVIDIA kernel module.";
const NO_GPUS: &str =
    "Check that the GPUs are detected: `lspci | grep -i nvidia`, `dmesg | grep -i nvrm`.";

pub(super) fn nvidia_devices(facts: &Facts) -> Finding {
    let devices = &facts.devices;
    let details = Details::NvidiaDevices {
        control_device_paths: devices.controls.clone(),
        gpu_device_paths: devices.gpus.clone(),
        paths: devices.paths(),
    };
    if !devices.gpus.is_empty() {
        let summary = count(devices.gpus.len(), "GPU device file", "GPU device files");
        return Status::Ok.finding(summary, details);
    }
    let (status, what) = match devices.controls.len() {
        0 => (Status::Error, "no device files".to_owned()),
        controls => {
            let files = count(controls, "control file", "control files");
            (Status::Warning, format!("no GPU device file, only {files}"))
        }
    };
    // WSL has no device files, although the driver works.
    let seen = facts.driver.as_ref().map_or(0, gpu_count);
    if seen > 0 {
        let summary = format!("{what}, yet NVML sees {}", count(seen, "GPU", "GPUs"));
        return Status::Warning
            .finding(summary, details)
            .advise("Nothing to do under WSL; in a container, pass the host's /dev/nvidia* in.");
    }
    status
        .finding(what, details)
        .blocked_until(device_action(facts))
}

/// Returns the advice for missing device files. If the cause is the same as for NVML reporting no GPU, the advice is
/// that of NVML's check, so that the page shows it once.
fn device_action(facts: &Facts) -> String {
    let action = match &facts.driver {
        _ if facts.module.is_some() => {
            "Create the device files: `nvidia-modprobe -c 0 -u`, or `nvidia-smi` once as root."
        }
        Ok(_) => NO_GPUS,
        Err(fault)
            if is_library(fault)
                || matches!(
                    fault.init_code(),
                    Some(DRIVER_NOT_LOADED | LIBRARY_NOT_FOUND)
                ) =>
        {
            return driver_action(fault, facts);
        }
        Err(_) => {
            "Load the NVIDIA kernel driver (`modprobe nvidia`); in a container, start it with access to the GPUs."
        }
    };
    action.to_owned()
}

pub(super) fn nvidia_smi(facts: &Facts) -> Finding {
    let Some(run) = &facts.smi else {
        return Status::Warning
            .finding("not found on PATH", Details::NoNvidiaSmi { found: false })
            .advise("Put nvidia-smi on PATH to cross-check the driver; gua does not need it.");
    };
    // Instances are indented below their GPU.
    let lines = |word: &str| -> Vec<String> {
        let lines = run.stdout.lines().map(str::trim);
        let lines = lines.filter(|line| line.starts_with(word));
        lines.map(str::to_owned).collect()
    };
    let (gpus, instances) = (lines("GPU "), lines("MIG "));
    let details = Details::NvidiaSmi {
        found: true,
        gpu_lines: gpus.clone(),
        mig_lines: instances.clone(),
        path: run.path.to_string_lossy().into_owned(),
        returncode: match run.end {
            End::Code(code) => Some(code),
            _ => None,
        },
        stderr: run.stderr.clone(),
        stdout: run.stdout.clone(),
        timed_out: matches!(run.end, End::TimedOut(_)),
    };
    let (summary, action) = match &run.end {
        End::NotStarted(error) => {
            let path = sanitize(&run.path.to_string_lossy());
            let error = sanitize(&shorten(error, SHORT));
            (
                format!("cannot be started: {error}"),
                format!("Check {path}; gua does not need it."),
            )
        }
        End::TimedOut(limit) => (
            format!("timed out after {} s", limit.as_secs_f64()),
            "See `dmesg | grep -i xid` for errors of a GPU or the driver.".to_owned(),
        ),
        End::Code(0) if gpus.is_empty() => ("no GPUs".to_owned(), NO_GPUS.to_owned()),
        End::Code(0) => {
            let mut summary = count(gpus.len(), "GPU", "GPUs");
            if !instances.is_empty() {
                let instances = count(instances.len(), "MIG instance", "MIG instances");
                summary.push_str(&format!(", {instances}"));
            }
            return Status::Ok.finding(summary, details);
        }
        End::Code(code) => {
            let outputs = [&run.stderr, &run.stdout].map(|text| sanitize(&shorten(text, SHORT)));
            let message = outputs.into_iter().find(|message| !message.is_empty());
            (
                message.map_or_else(
                    || format!("failed with exit code {code}"),
                    |message| format!("failed: {message}"),
                ),
                "Run `nvidia-smi -L` to see its full message.".to_owned(),
            )
        }
    };
    Status::Warning.finding(summary, details).advise(action)
}

pub(super) fn nvml(facts: &Facts) -> Finding {
    let driver = facts.driver.as_ref();
    let (loadable, initialized) = driver.map_or_else(reached, |_| (Some(true), Some(true)));
    let error = driver.err().map(|fault| sanitize(&fault.to_string()));
    let version = driver.map(|sample| sample.driver.version.as_ref());
    let details = Details::Nvml {
        device_count: driver.ok().map(gpu_count),
        driver_version: version.ok().and_then(Result::ok).cloned(),
        error,
        initialized,
        loadable,
    };
    let finding = |status: Status, summary: &str| status.finding(summary, details);
    match (driver.map(gpu_count), version) {
        (Ok(0), _) => finding(Status::Error, "initialized, GPU count=0").blocked_until(NO_GPUS),
        (Ok(gpus), Ok(version)) => {
            let version =
                version.map_or_else(|why| format!("unknown ({why})"), |text| sanitize(text));
            let summary = format!("initialized, GPU count={gpus}, driver {version}");
            finding(Status::Ok, &summary)
        }
        (Err(fault), _) | (_, Err(fault)) => finding(Status::Error, &without_sample(fault, facts))
            .blocked_until(driver_action(fault, facts)),
    }
}

/// Describes why the driver could not be read.
fn without_sample(fault: &DriverFault, facts: &Facts) -> String {
    let reason = sanitize(&fault.reason());
    match (reached(fault), absent(fault, facts.known.library.as_ref())) {
        ((Some(false), _), Some(library)) => {
            format!("not loadable: {}", sanitize(&library.problem()))
        }
        ((Some(false), _), None) => format!("not loadable: {reason}"),
        ((Some(true), Some(false)), _) => format!("loadable but init failed: {reason}"),
        _ => reason,
    }
}

impl NamedLibrary {
    /// Describes the problem if the library does not exist.
    pub fn problem(&self) -> String {
        format!("`{}` (from {}) does not exist", self.path, self.source)
    }
}

/// Returns the configured library if the fault is that it does not exist.
pub fn absent<'a>(
    fault: &DriverFault,
    library: Option<&'a NamedLibrary>,
) -> Option<&'a NamedLibrary> {
    match fault {
        DriverFault::LibraryNotFound { .. } => {
            library.filter(|library| library.exists == Some(false))
        }
        DriverFault::BackingOff { last, .. } => absent(last, library),
        _ => None,
    }
}

/// Reports whether the fault is that of the library's file.
fn is_library(fault: &DriverFault) -> bool {
    reached(fault).0 == Some(false)
}

fn driver_action(fault: &DriverFault, facts: &Facts) -> String {
    if let DriverFault::BackingOff { last, .. } = fault {
        return driver_action(last, facts);
    }
    if let Some(library) = facts.known.library.as_ref().filter(|_| is_library(fault)) {
        return format!("Correct {} or unset it.", library.source);
    }
    let has_kernel_side = facts.module.is_some() || !facts.devices.gpus.is_empty();
    let action = match (fault, fault.init_code()) {
        (DriverFault::LibraryNotFound { .. }, _) | (_, Some(LIBRARY_NOT_FOUND)) => {
            match has_kernel_side {
                true => {
                    "Install the library of the loaded NVIDIA driver, or name it with GUA_NVML_LIBRARY."
                }
                false => {
                    "Install the NVIDIA driver; in a container, start it with access to the GPUs."
                }
            }
        }
        (DriverFault::NotADriver { .. }, _) => {
            "Reinstall the NVIDIA driver, or name its library with GUA_NVML_LIBRARY."
        }
        (_, Some(DRIVER_NOT_LOADED)) => {
            "Load the NVIDIA kernel driver (`modprobe nvidia`), and see `dmesg` if that fails."
        }
        (_, Some(LIB_RM_VERSION_MISMATCH)) => REBOOT,
        _ => match fault.hint() {
            Some(hint) => return sentence(hint),
            None => "Run `gua doctor` again, and report this if it persists.",
        },
    };
    action.to_owned()
}

/// Returns whether the library was loaded, and whether it was initialised. `None` is unknown.
fn reached(fault: &DriverFault) -> (Option<bool>, Option<bool>) {
    match fault {
        DriverFault::LibraryNotFound { .. } | DriverFault::NotADriver { .. } => {
            (Some(false), Some(false))
        }
        DriverFault::Init { .. } => (Some(true), Some(false)),
        DriverFault::Lost { .. } => (Some(true), Some(true)),
        DriverFault::Hung { .. }
        | DriverFault::ReaderDied { .. }
        | DriverFault::NoReader { .. } => (None, None),
        DriverFault::BackingOff { last, .. } => reached(last),
    }
}

pub(super) fn driver_match(facts: &Facts) -> Finding {
    let module = facts.module.as_ref().map(|module| module.version.as_str());
    let sample = facts.driver.as_ref().ok();
    let library = sample.and_then(|sample| sample.driver.version.as_deref().ok());
    let fault = facts.driver.as_ref().err();
    let is_rejected = fault.and_then(DriverFault::init_code) == Some(LIB_RM_VERSION_MISMATCH);
    let compared = module
        .zip(library)
        .map(|(module, library)| module != library);
    let mismatch = is_rejected.then_some(true).or(compared);
    let details = Details::DriverMatch {
        kernel_module: module.map(str::to_owned),
        kernel_module_flavour: facts.module.as_ref().map(|module| module.flavour),
        mismatch,
        nvml_driver: library.map(str::to_owned),
    };
    let shown = library.map(sanitize).unwrap_or_default();
    let (status, summary) = match (module, library) {
        _ if is_rejected => {
            let loaded = module.map_or_else(String::new, |version| format!(" ({version})"));
            let summary =
                format!("the library and the loaded kernel module{loaded} have different versions");
            (Status::Error, summary)
        }
        (Some(module), Some(_)) if mismatch == Some(true) => (
            Status::Warning,
            format!("kernel module {module}, library {shown}"),
        ),
        (Some(_), Some(_)) => (
            Status::Ok,
            format!("kernel module and library are both {shown}"),
        ),
        (None, Some(_)) => (
            Status::Ok,
            format!("library {shown}, the version of the kernel module is unknown"),
        ),
        (Some(module), None) => (
            Status::Skipped,
            format!("kernel module {module}, the version of the library is unknown"),
        ),
        (None, None) => (Status::Skipped, "no version is known".to_owned()),
    };
    let finding = status.finding(summary, details);
    match mismatch {
        Some(true) => finding.advise(REBOOT),
        _ => finding,
    }
}

/// Returns the number of GPUs that the driver counts, including those whose UUID could not be read.
pub(super) fn gpu_count(sample: &Sample) -> usize {
    let gpus = sample.gpus.iter();
    let read = gpus.filter(|gpu| !matches!(gpu.place, Place::Instance { .. }));
    let problems = sample.problems.iter();
    let nameless = problems.filter(|problem| problem.gpu.is_none());
    let indexes = read.map(|gpu| Some(gpu.index));
    let indexes = indexes.chain(nameless.map(|problem| problem.index));
    indexes.flatten().collect::<BTreeSet<u32>>().len()
}

/// Turns a hint into a sentence.
fn sentence(hint: &str) -> String {
    let mut letters = hint.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

#[cfg(test)]
mod tests;
