//! nvgpu's library functions over one look at the driver, for programs that only want to know which card to take.
//!
//! The driver is read in the calling process. What must not hang with a sick driver asks a [`crate::reader::Reader`] for a
//! sample instead, and the functions of [`gua_model::nvgpu`] about it.

use gua_model::nvgpu;
pub use gua_model::nvgpu::GpuInfo;

use crate::fault::DriverFault;
use crate::probe::{Probe, ProbeOptions};

/// All cards with their memory, in the driver's order.
///
/// ```
/// use gua_probe::nvgpu::gpu_info;
/// use gua_probe::probe::ProbeOptions;
///
/// match gpu_info(&ProbeOptions::default()) {
///     Ok(cards) => {
///         for card in cards {
///             println!("{} {:?} of {:?} MB", card.index, card.mem_used, card.mem_total);
///         }
///     }
///     Err(fault) => println!("no cards: {fault}"),
/// }
/// ```
pub fn gpu_info(options: &ProbeOptions) -> Result<Vec<GpuInfo>, DriverFault> {
    let sample = Probe::new(options.clone()).sample()?;
    Ok(nvgpu::gpu_info(&sample))
}

/// The numbers of the cards of which at most so much of the memory is used; nvgpu's own limit is 20.
///
/// ```
/// use gua_probe::nvgpu::available_gpus;
/// use gua_probe::probe::ProbeOptions;
///
/// let free = available_gpus(&ProbeOptions::default(), 20.0).unwrap_or_default();
/// println!("CUDA_VISIBLE_DEVICES={}", free.join(","));
/// ```
pub fn available_gpus(
    options: &ProbeOptions,
    max_used_percent: f64,
) -> Result<Vec<String>, DriverFault> {
    let sample = Probe::new(options.clone()).sample()?;
    Ok(nvgpu::available_gpus(&sample, max_used_percent))
}
