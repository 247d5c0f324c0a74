"""The functions of the package nvgpu, from gua: existing programs keep their ``import nvgpu``."""

from gua.nvgpu import GpuInfo, available_gpus, gpu_info

__all__ = ["GpuInfo", "available_gpus", "gpu_info"]
