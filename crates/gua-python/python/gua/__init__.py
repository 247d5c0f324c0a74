"""Who holds which GPU, since when, and was it used?

- :func:`available_gpus`, :func:`gpu_info`: free GPUs by the rule of nvgpu (:mod:`gua.nvgpu`)
- :func:`snapshot`: current state and holders of every GPU
- :func:`report`, :class:`History`: reports and rows of a history
- :func:`monitor`: watches a part of a program, as a context manager or a decorator
- :class:`RunLog`, :class:`HWMonitor`, :class:`ResourceSummary`, :func:`build_resource_summary`,
  :func:`probe_jax_peak_memory_mb`: drop-in for ``pytyche.diagnostics.run_monitor``

The driver is read by a thread of this process that never holds the interpreter lock.
"""

from gua import nvgpu
from gua._gua import VERSION as __version__
from gua._history import Column, History, Table
from gua._look import report, snapshot
from gua._monitor import HWMonitor
from gua._run_log import RunLog
from gua._summary import ResourceSummary, build_resource_summary, probe_jax_peak_memory_mb
from gua._watch import Run, monitor
from gua.errors import DriverError, DriverMissing, DriverTimeout, GuaError, HistoryError
from gua.nvgpu import available_gpus, gpu_info

__all__ = [
    "Column",
    "DriverError",
    "DriverMissing",
    "DriverTimeout",
    "GuaError",
    "HWMonitor",
    "History",
    "HistoryError",
    "ResourceSummary",
    "Run",
    "RunLog",
    "Table",
    "__version__",
    "available_gpus",
    "build_resource_summary",
    "gpu_info",
    "monitor",
    "nvgpu",
    "probe_jax_peak_memory_mb",
    "report",
    "snapshot",
]
