"""A watched part of a program: ``with gua.monitor():``, or a function under ``@gua.monitor()``."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

from gua import _marks
from gua._monitor import Gpus, HWMonitor, chosen
from gua._run_log import RunLog
from gua._summary import ResourceSummary, probe_jax_peak_memory_mb, summarize

__all__ = ["Run", "monitor"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Run:
    """One watched part of a program. Its summary is available when it has ended."""

    def __init__(self, output_dir: Path | None) -> None:
        #: When it began, in UTC.
        self.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        #: Directory of the files; ``None`` for a run without files.
        self.output_dir = output_dir
        #: Log of the run; with a directory, written to ``run.jsonl`` as it happens.
        self.log = RunLog(None if output_dir is None else output_dir / "run.jsonl")
        #: Resources that it used; ``None`` until it has ended.
        self.summary: ResourceSummary | None = None
        #: Names of values that were never measured, which are 0.0 in the summary.
        self.unmeasured: list[str] = []
        #: Duration in seconds; ``None`` until it has ended.
        self.seconds: float | None = None
        #: Reason of the last failure to read the GPUs, if any.
        self.fault: str | None = None
        #: Class of the exception that ended it, if any.
        self.error: str | None = None

    @contextmanager
    def phase(self, name: str, /, **extra: Any) -> Iterator[dict[str, Any]]:
        """Times the block: ``with run.phase("fit", epochs=3): ...``

        Under ``gua run`` it is also a phase of that run; its end marks the enclosing phase, or ``other`` if there is none.
        """
        with _marks.phase(name), self.log.phase(name, **extra) as values:
            yield values

    def event(self, event_type: str, data: dict[str, Any] | None = None) -> None:
        """Logs an event, and forwards it to an enclosing ``gua run``."""
        self.log.log_event(event_type, data)
        _marks.event(event_type, data)


class monitor:
    """Watches the block: GPUs, CPUs, and the phases, events and values that it logs.

    As a context manager it yields a :class:`Run`::

        with gua.monitor("out") as run:
            with run.phase("fit"):
                train()
        print(run.summary)

    As a decorator it watches each call, including ``async`` functions, and generators of both kinds from their first value to
    their last; ``on_end`` gets the run::

        @gua.monitor(on_end=lambda run: print(run.summary.to_dict()))
        def train(): ...

    With ``output_dir`` the run's files are written there, as with ``gua run --out``: a later run in the same directory
    appends to ``run.jsonl`` and replaces the others. Without it there is only the summary. Exceptions propagate unchanged,
    and failures of the watching are warnings.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        *,
        interval_sec: float = 2,
        gpus: Gpus = "auto",
        on_end: Callable[[Run], object] | None = None,
    ) -> None:
        if inspect.isfunction(output_dir):
            raise TypeError("write @gua.monitor(), with brackets")
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._interval_sec = interval_sec
        self._gpus = chosen(gpus)
        self._on_end = on_end
        self._running: list[AbstractContextManager[Run]] = []

    def __enter__(self) -> Run:
        watched = self._watch()
        run = watched.__enter__()
        self._running.append(watched)
        return run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._running.pop().__exit__(kind, error, trace)

    def __call__(self, function: _Function) -> _Function:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def watched_coroutine(*args: Any, **kwargs: Any) -> Any:
                with self._watch():
                    return await function(*args, **kwargs)

            return cast(_Function, watched_coroutine)

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def watched_generator(*args: Any, **kwargs: Any) -> Any:
                with self._watch():
                    return (yield from function(*args, **kwargs))

            return cast(_Function, watched_generator)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def watched_async_generator(*args: Any, **kwargs: Any) -> Any:
                with self._watch():
                    values = function(*args, **kwargs)
                    try:
                        value = await values.__anext__()
                        while True:
                            try:
                                sent = yield value
                            except GeneratorExit:
                                raise
                            except BaseException as thrown:
                                value = await values.athrow(thrown)
                            else:
                                value = await values.asend(sent)
                    except StopAsyncIteration:
                        return
                    finally:
                        await values.aclose()

            return cast(_Function, watched_async_generator)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self._watch():
                return function(*args, **kwargs)

        return cast(_Function, watched)

    @contextmanager
    def _watch(self) -> Iterator[Run]:
        with ExitStack() as kept:
            place = self._output_dir or Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="gua-")))
            hardware = HWMonitor(gpus=self._gpus)
            # Whatever fails from here on, no sampler is left running.
            kept.callback(hardware.stop)
            hardware.start(place, self._interval_sec)
            run = Run(self._output_dir)
            began = time.perf_counter()
            run.log.log_event("run_started", {"pid": os.getpid()})
            try:
                yield run
            except BaseException as error:
                # A generator that is closed early has ended normally.
                name = None if isinstance(error, GeneratorExit) else type(error).__name__
                try:
                    self._end(run, hardware, began, name)
                except Exception as trouble:
                    # The exception of the watched code propagates even if warnings are turned into errors.
                    with suppress(Warning):
                        _warn(f"cannot log a failed run: {trouble!r}")
                raise
            else:
                self._end(run, hardware, began, None)

    def _end(self, run: Run, hardware: HWMonitor, began: float, error: str | None) -> None:
        run.seconds, run.error = time.perf_counter() - began, error
        files = hardware.stop()
        run.fault = hardware.fault
        trouble = None if hardware.write_error is None else f"not all of the run was written: {hardware.write_error}"
        try:
            run.summary, run.unmeasured = summarize(*files)
        except OSError as unreadable:
            trouble = f"the run could not be summed up: {unreadable}"
            run.summary, run.unmeasured = summarize(None, None, None)
        end: dict[str, Any] = {"seconds": round(run.seconds, 3)}
        # Not imported here: importing JAX would allocate GPU memory in a program that does not use it.
        if "jax" in sys.modules and (peak := probe_jax_peak_memory_mb()) > 0:
            run.summary.jax_peak_bytes_mb = end["jax_peak_bytes_mb"] = peak
            _marks.values(jax_peak_bytes_mb=peak)
        if error is not None:
            end["error"] = error
        run.log.log_event("run_ended", end)
        if run.output_dir is not None:
            try:
                _write_summary(run, run.output_dir / "summary.json")
            except OSError as unwritable:
                # The watched code has succeeded; a full disk must not change that.
                trouble = str(unwritable)
        if trouble is not None:
            _warn(trouble)
        if self._on_end is not None:
            self._on_end(run)


def _warn(trouble: str) -> None:
    warnings.warn(f"gua: {trouble}", RuntimeWarning, stacklevel=2)


def _write_summary(run: Run, path: Path) -> None:
    assert run.summary is not None
    value = {
        **run.summary.to_dict(),
        "run": {"started": run.started, "seconds": round(run.seconds or 0.0, 3), "error": run.error},
        "unmeasured": run.unmeasured,
        "notes": [] if run.fault is None else [run.fault],
    }
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
