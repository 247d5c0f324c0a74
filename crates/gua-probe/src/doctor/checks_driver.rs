//! Checks of the driver: its device files, `nvidia-smi` as an independent source, the library, and whether their
//! versions match.

use std::collections::BTreeSet;

use crate::fault::{DRIVER_NOT_LOADED, DriverFault, LIB_RM_VERSION_MISMATCH, LIBRARY_NOT_FOUND};
use gua_model::{Place, Sample};
use serde_json::json;

use gua_model::text::sanitize;

use super::check::{Check, Group, Kind, Status, count, shorten};
use super::facts::{Facts, NamedLibrary, Presence};
use super::smi::End;

const DEVICES: Kind = Kind::new(Group::Gpu, "nvidia_devices", "/dev/nvidia*");
const SMI: Kind = Kind::new(Group::Gpu, "nvidia_smi", "nvidia-smi");
const NVML: Kind = Kind::new(Group::Gpu, "nvml", "NVML");
const MATCH: Kind = Kind::new(Group::Gpu, "driver_match", "driver versions");

/// Maximum length of an external error text in a summary.
const SHORT: usize = 160;

const REBOOT: &str = "Reboot, or reload the NVIDIA kernel module.";
const NO_CARDS: &str = "Check the cards: `lspci | grep -i nvidia`, `dmesg | grep -i nvrm`.";

pub(super) fn nvidia_devices(facts: &Facts) -> Check {
    let devices = &facts.devices;
    let details = json!({
        "paths": devices.paths(),
        "gpu_device_paths": devices.gpus,
        "control_device_paths": devices.controls,
    });
    if !devices.gpus.is_empty() {
        let summary = count(devices.gpus.len(), "GPU device file", "GPU device files");
        return DEVICES.ok(summary, details);
    }
    let (status, what) = match devices.controls.len() {
        0 => (Status::Error, "no device files".to_owned()),
        controls => {
            let files = count(controls, "control file", "control files");
            (Status::Warning, format!("no GPU device file, only {files}"))
        }
    };
    // WSL has no device files, although the driver works.
    let seen = facts.driver.as_ref().map_or(0, cards);
    if seen > 0 {
        let summary = format!("{what}, yet NVML sees {}", count(seen, "GPU", "GPUs"));
        return DEVICES
            .warning(summary, details)
            .advise("Nothing to do under WSL; in a container, pass the host's /dev/nvidia* in.");
    }
    DEVICES
        .check(status, what, details)
        .blocked_until(device_deed(facts))
}

/// Returns the advice for missing device files. If the cause is the same as for NVML reporting no GPU, the advice is
/// that of NVML's check, so that the page shows it once.
fn device_deed(facts: &Facts) -> String {
    if facts.module.is_some() {
        return "Create the device files: `nvidia-modprobe -c 0 -u`, or `nvidia-smi` once as root."
            .to_owned();
    }
    match &facts.driver {
        Ok(_) => NO_CARDS.to_owned(),
        Err(
            fault @ (DriverFault::LibraryNotFound { .. }
            | DriverFault::NotADriver { .. }
            | DriverFault::Init {
                code: DRIVER_NOT_LOADED | LIBRARY_NOT_FOUND,
                ..
            }),
        ) => deed(fault, facts),
        Err(_) => {
            "Load the NVIDIA kernel driver (`modprobe nvidia`); in a container, start it with access to the GPUs."
                .to_owned()
        }
    }
}

pub(super) fn nvidia_smi(facts: &Facts) -> Check {
    let Some(run) = &facts.smi else {
        return SMI
            .warning("not found on PATH", json!({ "found": false }))
            .advise("Put nvidia-smi on PATH for a second opinion; gua does without it.");
    };
    // Instances are indented below their GPU.
    let lines = |word: &str| -> Vec<&str> {
        let lines = run.stdout.lines().map(str::trim);
        lines.filter(|line| line.starts_with(word)).collect()
    };
    let (gpus, instances) = (lines("GPU "), lines("MIG "));
    let details = json!({
        "found": true,
        "path": run.path.to_string_lossy(),
        "returncode": match run.end { End::Code(code) => Some(code), _ => None },
        "stdout": run.stdout,
        "stderr": run.stderr,
        "timed_out": matches!(run.end, End::TimedOut(_)),
        "gpu_lines": gpus,
        "mig_lines": instances,
    });
    let warning = |summary: &str| SMI.warning(summary, details.clone());
    match &run.end {
        End::NotStarted(error) => {
            let path = sanitize(&run.path.to_string_lossy());
            let error = shorten(&sanitize(error), SHORT);
            warning(&format!("cannot be started: {error}"))
                .advise(format!("Check {path}; gua does without it."))
        }
        End::TimedOut(limit) => warning(&format!("timed out after {} s", limit.as_secs_f64()))
            .advise("See `dmesg | grep -i xid` for a card or driver in trouble."),
        End::Code(0) if gpus.is_empty() => warning("no GPUs").advise(NO_CARDS),
        End::Code(0) => {
            let mut summary = count(gpus.len(), "GPU", "GPUs");
            if !instances.is_empty() {
                let instances = count(instances.len(), "MIG instance", "MIG instances");
                summary.push_str(&format!(", {instances}"));
            }
            SMI.ok(summary, details)
        }
        End::Code(code) => {
            let outputs = [&run.stderr, &run.stdout].into_iter();
            let words = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let said = outputs.map(words).find(|said| !said.is_empty());
            let summary = match said {
                None => format!("failed with exit code {code}"),
                Some(said) => format!("failed: {}", shorten(&sanitize(&said), SHORT)),
            };
            warning(&summary).advise("Run `nvidia-smi -L` to see its full message.")
        }
    }
}

pub(super) fn nvml(facts: &Facts) -> Check {
    let sample = match &facts.driver {
        Ok(sample) => sample,
        Err(fault) => return without_sample(fault, facts),
    };
    let cards = cards(sample);
    let details = json!({
        "loadable": true,
        "initialized": true,
        "device_count": cards,
        "driver_version": sample.driver.version.as_ref().ok(),
        "error": null,
    });
    if cards == 0 {
        return NVML
            .error("initialized, GPU count=0", details)
            .blocked_until(NO_CARDS);
    }
    let version = sample
        .driver
        .version
        .as_ref()
        .map_or_else(|why| format!("unknown ({why})"), |text| sanitize(text));
    let summary = format!("initialized, GPU count={cards}, driver {version}");
    NVML.ok(summary, details)
}

fn without_sample(fault: &DriverFault, facts: &Facts) -> Check {
    let (loadable, initialized) = reached(fault);
    let error = sanitize(&fault.to_string());
    let details = json!({
        "loadable": loadable,
        "initialized": initialized,
        "device_count": null,
        "driver_version": null,
        "error": error,
    });
    let short = error
        .strip_prefix("NVML initialization failed: ")
        .unwrap_or(&error);
    let summary = match (loadable, initialized) {
        (Some(false), _) => match absent(fault, facts.library.as_ref()) {
            Some(library) => format!("not loadable: {}", sanitize(&library.fate())),
            None => format!("not loadable: {short}"),
        },
        (Some(true), Some(false)) => format!("loadable but init failed: {short}"),
        _ => short.to_owned(),
    };
    NVML.error(summary, details)
        .blocked_until(deed(fault, facts))
}

/// Returns the configured library if the fault is that it does not exist.
#[must_use]
pub fn absent<'a>(
    fault: &DriverFault,
    library: Option<&'a NamedLibrary>,
) -> Option<&'a NamedLibrary> {
    match fault {
        DriverFault::LibraryNotFound { .. } => {
            library.filter(|library| library.presence == Presence::Absent)
        }
        DriverFault::BackingOff { last, .. } => absent(last, library),
        _ => None,
    }
}

fn deed(fault: &DriverFault, facts: &Facts) -> String {
    if let (DriverFault::LibraryNotFound { .. } | DriverFault::NotADriver { .. }, Some(library)) =
        (fault, &facts.library)
    {
        return ended(library.correction());
    }
    let has_kernel_side = facts.module.is_some() || !facts.devices.gpus.is_empty();
    match fault {
        DriverFault::LibraryNotFound { .. }
        | DriverFault::Init {
            code: LIBRARY_NOT_FOUND,
            ..
        } => match has_kernel_side {
            true => {
                "Install the library of the loaded NVIDIA driver, or name it with GUA_NVML_LIBRARY."
            }
            false => "Install the NVIDIA driver; in a container, start it with access to the GPUs.",
        }
        .to_owned(),
        DriverFault::NotADriver { .. } => {
            "Reinstall the NVIDIA driver, or name its library with GUA_NVML_LIBRARY.".to_owned()
        }
        DriverFault::Init {
            code: DRIVER_NOT_LOADED,
            ..
        } => "Load the NVIDIA kernel driver (`modprobe nvidia`), and see `dmesg` if that fails."
            .to_owned(),
        DriverFault::Init {
            code: LIB_RM_VERSION_MISMATCH,
            ..
        } => REBOOT.to_owned(),
        DriverFault::BackingOff { last, .. } => deed(last, facts),
        other => ended(other.hint().map_or_else(
            || "Run `gua doctor` again, and report this if it stays".to_owned(),
            capitalised,
        )),
    }
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

pub(super) fn driver_match(facts: &Facts) -> Check {
    let module = facts.module.as_ref().map(|module| module.version.as_str());
    let sample = facts.driver.as_ref().ok();
    let library = sample.and_then(|sample| sample.driver.version.as_deref().ok());
    let mismatched = matches!(
        facts.driver,
        Err(DriverFault::Init {
            code: LIB_RM_VERSION_MISMATCH,
            ..
        })
    );
    let details = json!({
        "kernel_module": module,
        "kernel_module_flavour": facts.module.as_ref().map(|module| module.flavour.as_str()),
        "nvml_driver": library,
        "mismatch": match (module, library) {
            _ if mismatched => Some(true),
            (Some(module), Some(library)) => Some(module != library),
            _ => None,
        },
    });
    let shown = library.map(sanitize).unwrap_or_default();
    match (module, library) {
        _ if mismatched => {
            let loaded = module.map(|version| format!(" ({version})"));
            let loaded = loaded.unwrap_or_default();
            let summary =
                format!("the library is not of the version of the loaded kernel module{loaded}");
            MATCH.error(summary, details).advise(REBOOT)
        }
        (Some(module), Some(library)) if module == library => {
            let summary = format!("kernel module and library are both {library}");
            MATCH.ok(summary, details)
        }
        (Some(module), Some(_)) => {
            let summary = format!("kernel module {module}, library {shown}");
            MATCH.warning(summary, details).advise(REBOOT)
        }
        (None, Some(_)) => {
            let summary = format!("library {shown}, the kernel module does not say its version");
            MATCH.ok(summary, details)
        }
        (Some(module), None) => {
            let summary = format!("kernel module {module}, the library does not say its version");
            MATCH.skipped(summary, details)
        }
        (None, None) => MATCH.skipped("no version is known", details),
    }
}

/// Returns the number of GPUs that the driver counts, including those whose UUID could not be read.
#[must_use]
pub(super) fn cards(sample: &Sample) -> usize {
    let gpus = sample.gpus.iter();
    let read = gpus.filter(|gpu| !matches!(gpu.place, Place::Instance { .. }));
    let problems = sample.problems.iter();
    let nameless = problems.filter(|problem| problem.gpu.is_none());
    let indexes = read.map(|gpu| Some(gpu.index));
    let indexes = indexes.chain(nameless.map(|problem| problem.index));
    indexes.flatten().collect::<BTreeSet<u32>>().len()
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn ended(sentence: String) -> String {
    if sentence.ends_with(['.', '!', '?']) {
        sentence
    } else {
        sentence + "."
    }
}

#[cfg(test)]
mod tests;
