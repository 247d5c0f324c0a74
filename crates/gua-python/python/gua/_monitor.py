"""Samples GPUs and CPUs while a job runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Union

from gua import _gua

__all__ = ["Gpus", "HWMonitor"]

#: GPUs to sample: ``"auto"`` (those in ``CUDA_VISIBLE_DEVICES``, else all), ``"all"``, or numbers and UUIDs.
Gpus = Union[str, int, Iterable[Union[str, int]]]


class HWMonitor:
    """Records the use of GPUs and CPUs every ``interval_sec`` seconds until it is stopped.

    Drop-in for ``pytyche.diagnostics.run_monitor.HWMonitor``: the same three files. It needs no nvidia-smi, its threads
    never hold the interpreter lock, and each line is written as soon as it is read.
    """

    def __init__(self, *, gpus: Gpus = "auto") -> None:
        self._gpus = chosen(gpus)
        self._monitor: _gua.Monitor | None = None
        #: Why the GPUs could not be read last, if they could not; known after :meth:`stop`.
        self.fault: str | None = None
        #: Why lines could not be written, if any could not; known after :meth:`stop`.
        self.write_error: str | None = None

    def start(self, output_dir: str | os.PathLike[str], interval_sec: float = 2) -> None:
        """Creates the directory and starts sampling. A previous run is stopped first."""
        self.stop()
        self._monitor = _gua.Monitor(os.fspath(output_dir), interval_sec, _visible(self._gpus))

    def stop(self) -> tuple[Path | None, Path | None, Path | None]:
        """Stops sampling and returns the files of GPUs, CPUs and dmon; ``None`` where nothing was sampled.

        It returns within five seconds, whatever the driver does.
        """
        if self._monitor is None:
            return None, None, None
        gpu, cpu, dmon, self.fault, self.write_error = self._monitor.stop()
        self._monitor = None
        return gpu, cpu, dmon


def chosen(gpus: Gpus) -> str:
    """The GPUs as ``CUDA_VISIBLE_DEVICES`` lists them, ``"auto"`` or ``"all"``; a ``ValueError`` for anything else."""
    if isinstance(gpus, (str, int)):
        if gpus in ("auto", "all"):
            return str(gpus)
        gpus = (gpus,)
    names = [str(gpu) for gpu in gpus]
    for name in names:
        if not _gua.names_gpus(name):
            raise ValueError(f"gpus: {name!r} is not a GPU; write \"auto\", \"all\", or numbers and UUIDs")
    return ",".join(names)


def _visible(gpus: str) -> str | None:
    """Resolves the result of :func:`chosen` now; ``None`` means all."""
    if gpus == "auto":
        return os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if gpus == "all" else gpus
