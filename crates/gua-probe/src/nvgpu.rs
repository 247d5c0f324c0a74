//! nvgpu's library functions over one sample, for programs that only choose a GPU.
//!
//! The driver is read in the calling process. Programs that must not hang with the driver take a sample from a
//! [`crate::reader::Reader`] and pass it to the functions of [`gua_model::nvgpu`].

use gua_model::nvgpu;
pub use gua_model::nvgpu::GpuInfo;

use crate::fault::DriverFault;
use crate::probe::{Probe, ProbeOptions};

/// Returns all GPUs with their memory, in the driver's order.
///
/// ```
/// use gua_probe::fault::DriverFault;
/// use gua_probe::nvgpu::gpu_info;
/// use gua_probe::probe::ProbeOptions;
///
/// # let folder = tempfile::tempdir()?;
/// # let library = nvml_sim::driver::install(folder.path(), nvml_sim::driver::Generation::LATEST)?;
/// # let gpus = "[[card]]\nname = \"NVIDIA A100\"\nmemory_used_mib = 1024\nmemory_total_mib = 40960\n";
/// # nvml_sim::scenario::write_text(&folder.path().join(nvml_sim::BESIDE), gpus)?;
/// // `ProbeOptions::default()` takes the driver's library where the system has it.
/// let options = ProbeOptions { library: Some(library), ..ProbeOptions::default() };
/// let gpus = gpu_info(&options)?;
/// assert_eq!(gpus.len(), 1);
/// assert_eq!((gpus[0].index.as_str(), gpus[0].mem_used, gpus[0].mem_total), ("0", Ok(1024), Ok(40960)));
///
/// let nowhere = ProbeOptions { library: Some("/nonexistent/libnvidia-ml.so.1".into()), ..options };
/// assert!(matches!(gpu_info(&nowhere), Err(DriverFault::LibraryNotFound { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gpu_info(options: &ProbeOptions) -> Result<Vec<GpuInfo>, DriverFault> {
    let sample = Probe::new(options.clone()).sample()?;
    Ok(nvgpu::gpu_info(&sample))
}

/// Returns the indices of the GPUs with at most this share of their memory in use; nvgpu's default is 20.
///
/// ```
/// use gua_probe::fault::DriverFault;
/// use gua_probe::nvgpu::available_gpus;
/// use gua_probe::probe::ProbeOptions;
///
/// # let folder = tempfile::tempdir()?;
/// # let library = nvml_sim::driver::install(folder.path(), nvml_sim::driver::Generation::LATEST)?;
/// # let gpus = [30000, 12, 8000].map(|used| format!("[[card]]\nmemory_used_mib = {used}\nmemory_total_mib = 40960\n"));
/// # nvml_sim::scenario::write_text(&folder.path().join(nvml_sim::BESIDE), &gpus.concat())?;
/// // `ProbeOptions::default()` takes the driver's library where the system has it.
/// let options = ProbeOptions { library: Some(library), ..ProbeOptions::default() };
/// let free = available_gpus(&options, 20.0)?;
/// assert_eq!(free.join(","), "1,2", "for CUDA_VISIBLE_DEVICES");
/// assert_eq!(available_gpus(&options, 1.0)?, ["1"]);
///
/// let nowhere = ProbeOptions { library: Some("/nonexistent/libnvidia-ml.so.1".into()), ..options };
/// assert!(matches!(available_gpus(&nowhere, 20.0), Err(DriverFault::LibraryNotFound { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn available_gpus(
    options: &ProbeOptions,
    max_used_percent: f64,
) -> Result<Vec<String>, DriverFault> {
    let sample = Probe::new(options.clone()).sample()?;
    Ok(nvgpu::available_gpus(&sample, max_used_percent))
}
