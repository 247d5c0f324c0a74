"""The functions of the package nvgpu, by their names: ``from gua import nvgpu`` in place of ``import nvgpu``.

They read the driver itself and no table that a program prints, so they need no nvidia-smi.
"""

from __future__ import annotations

from typing import TypedDict

from gua import _gua

__all__ = ["GpuInfo", "available_gpus", "gpu_info"]


class GpuInfo(TypedDict):
    """One card. What the driver does not tell is ``None``: a card with unified memory has none of its own."""

    index: str
    type: str | None
    uuid: str
    mem_used: int | None
    mem_total: int | None
    mem_used_percent: float | None


def gpu_info() -> list[GpuInfo]:
    """All cards in the driver's order, with their memory in MiB. MIG instances are not among them."""
    return _gua.gpu_info()


def available_gpus(max_used_percent: float = 20.0) -> list[str]:
    """The numbers of the cards of which at most so much of the memory is used, as texts.

    Whoever holds them is not looked at. ``gua available --claim`` takes a card in a way that two people cannot.
    """
    return _gua.available_gpus(max_used_percent)
