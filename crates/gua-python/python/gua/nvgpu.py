"""The functions of the package nvgpu, with their names: ``from gua import nvgpu`` in place of ``import nvgpu``.

They read the driver directly, so they need no nvidia-smi.
"""

from __future__ import annotations

from typing import TypedDict

from gua import _gua

__all__ = ["GpuInfo", "available_gpus", "gpu_info"]


class GpuInfo(TypedDict):
    """One GPU. Values that the driver does not report are ``None``: a GPU with unified memory has no memory readings."""

    index: str
    type: str | None
    uuid: str
    mem_used: int | None
    mem_total: int | None
    mem_used_percent: float | None


def gpu_info() -> list[GpuInfo]:
    """All GPUs in the driver's order, with their memory in MiB. MIG instances are not included."""
    return _gua.gpu_info()


def available_gpus(max_used_percent: float = 20.0) -> list[str]:
    """Indexes, as text, of the GPUs with at most this share of their memory in use.

    Holders are not considered. ``gua available --claim`` never gives one GPU to two callers.
    """
    return _gua.available_gpus(max_used_percent)
