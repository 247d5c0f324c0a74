"""Exception classes.

An invalid argument raises ``ValueError``, as usual in Python.
"""

from __future__ import annotations

__all__ = ["DriverError", "DriverMissing", "DriverTimeout", "GuaError", "HistoryError"]


class GuaError(Exception):
    """Base of all errors of gua."""


class DriverError(GuaError):
    """The NVIDIA driver did not answer, or refused."""


class DriverMissing(DriverError, FileNotFoundError):
    """There is no NVIDIA driver library. Also a ``FileNotFoundError``, as a missing nvidia-smi is for nvgpu."""


class DriverTimeout(DriverError, TimeoutError):
    """The NVIDIA driver did not answer in time."""


class HistoryError(GuaError):
    """The history could not be opened or read."""
