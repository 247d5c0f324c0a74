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
    """One watched part of a program. What it used is known when it has ended."""

    def __init__(self, output_dir: Path | None) -> None:
        #: When it began, in UTC.
        self.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        #: Where the files are; ``None`` for a run that keeps none.
        self.output_dir = output_dir
        #: What the run says of itself; with a directory, in ``run.jsonl`` as it happens.
        self.log = RunLog(None if output_dir is None else output_dir / "run.jsonl")
        #: What it used; ``None`` until it has ended.
        self.summary: ResourceSummary | None = None
        #: What was never measured, and stands as 0.0 in the summary.
        self.unmeasured: list[str] = []
        #: How long it took; ``None`` until it has ended.
        self.seconds: float | None = None
        #: Why the cards could not be read last, if they could not.
        self.fault: str | None = None
        #: The class of the exception that ended it, if one did.
        self.error: str | None = None

    @contextmanager
    def phase(self, name: str, /, **extra: Any) -> Iterator[dict[str, Any]]:
        """Times what is done inside: ``with run.phase("fit", epochs=3): ...``

        Under ``gua run`` it is a phase of that run too, and when it has ended, the one around it; ``other`` where there is none.
        """
        with _marks.phase(name), self.log.phase(name, **extra) as values:
            yield values

    def event(self, event_type: str, data: dict[str, Any] | None = None) -> None:
        """Notes something that happened, for a ``gua run`` around the program too."""
        self.log.log_event(event_type, data)
        _marks.event(event_type, data)


class monitor:
    """Watches what is done inside: cards, processors, and what the run says of itself.

    As a context manager it gives a :class:`Run`::

        with gua.monitor("out") as run:
            with run.phase("fit"):
                train()
        print(run.summary)

    As a decorator it watches each call, also of ``async`` functions, and generators of both kinds from their first value to
    their last; ``on_end`` gets the run::

        @gua.monitor(on_end=lambda run: print(run.summary.to_dict()))
        def train(): ...

    With ``output_dir`` the run's files are kept there, as those of ``gua run --out``: a later run in the same directory goes
    on with ``run.jsonl`` and replaces the others. Without it there is only the summary. An exception goes on as it came, and
    what fails in the watching is a warning.
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
            # Whatever fails from here on, nothing is left running.
            kept.callback(hardware.stop)
            hardware.start(place, self._interval_sec)
            run = Run(self._output_dir)
            began = time.perf_counter()
            run.log.log_event("run_started", {"pid": os.getpid()})
            try:
                yield run
            except BaseException as error:
                # A generator that nobody asks any more has ended well.
                name = None if isinstance(error, GeneratorExit) else type(error).__name__
                try:
                    self._end(run, hardware, began, name)
                except Exception as trouble:
                    # Also where warnings are made errors, the exception of what was watched is the one to go on.
                    with suppress(Warning):
                        _warn(f"a run that failed could not be told of: {trouble!r}")
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
        # Not imported here: a program without JAX must not get one that takes its cards.
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
                # What was watched has ended well; a full disk must not change that.
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
