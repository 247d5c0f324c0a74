"""Ten numbers from the metric files of a run."""

from __future__ import annotations

import importlib
import os
from dataclasses import asdict, dataclass
from typing import Any

from gua import _gua

__all__ = ["ResourceSummary", "build_resource_summary", "probe_jax_peak_memory_mb"]


@dataclass
class ResourceSummary:
    """Resources that a run used. Drop-in for ``pytyche.diagnostics.run_monitor.ResourceSummary``.

    As there, 0.0 can also mean "not measured"; :attr:`gua.Run.unmeasured` lists those.
    """

    peak_vram_mb: float = 0.0
    jax_peak_bytes_mb: float = 0.0
    gpu_util_mean_pct: float = 0.0
    gpu_util_max_pct: float = 0.0
    mem_util_mean_pct: float = 0.0
    mem_util_max_pct: float = 0.0
    power_watts_mean: float = 0.0
    power_watts_max: float = 0.0
    cpu_usr_mean_pct: float = 0.0
    cpu_idle_mean_pct: float = 0.0

    def to_dict(self) -> dict[str, float]:
        """The numbers with one decimal each; JAX's peak and memory utilisation only if they were measured."""
        return _gua.summary_entries(asdict(self))


def build_resource_summary(
    gpu_csv_path: str | os.PathLike[str] | None,
    cpu_csv_path: str | os.PathLike[str] | None,
    dmon_csv_path: str | os.PathLike[str] | None = None,
) -> ResourceSummary:
    """Sums up the files of :class:`gua.HWMonitor`, of ``gua run``, or of the original. A missing file leaves zeros.

    The column of memory utilisation is found by its name, and a missing value costs only itself and not its line.
    """
    return summarize(gpu_csv_path, cpu_csv_path, dmon_csv_path)[0]


def summarize(
    gpu_csv_path: str | os.PathLike[str] | None,
    cpu_csv_path: str | os.PathLike[str] | None,
    dmon_csv_path: str | os.PathLike[str] | None,
) -> tuple[ResourceSummary, list[str]]:
    """The summary, and the names of values that were never measured."""
    paths = (None if path is None else os.fspath(path) for path in (gpu_csv_path, cpu_csv_path, dmon_csv_path))
    numbers, missing, _ = _gua.summarize(*paths)
    return ResourceSummary(**numbers), missing


def probe_jax_peak_memory_mb(*, every_device: bool = False) -> float:
    """Peak memory of JAX on its first local GPU so far, in MiB; 0.0 without JAX, a GPU or statistics.

    With ``every_device``, the highest peak of all its local GPUs. Imports JAX.
    """
    try:
        jax = importlib.import_module("jax")
        gpus = [device for device in jax.local_devices() if device.platform in ("gpu", "cuda", "rocm")]
        peaks = (_peak_bytes(gpu) for gpu in (gpus if every_device else gpus[:1]))
        return max(peaks, default=0.0) / (1024 * 1024)
    except Exception:
        return 0.0


def _peak_bytes(device: Any) -> float:
    stats = device.memory_stats()
    return float((stats or {}).get("peak_bytes_in_use", 0))
