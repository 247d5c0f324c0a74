"""Phases and events of one run, as JSON lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gua import _gua

__all__ = ["RunLog"]


class RunLog:
    """Phases and events of one run, one JSON object per line.

    Drop-in for ``pytyche.diagnostics.run_monitor.RunLog``. With a ``path`` each line is also written to that file before the call
    returns, so that ``tail -f`` and ``jq`` work while the job runs, and a killed job loses nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._log = _gua.Log(None if path is None else os.fspath(path))

    def log_phase(self, name: str, seconds: float, **extra: Any) -> None:
        """Logs a phase that has ended, and its duration.

        Values that JSON cannot hold become strings. An extra value cannot overwrite ``ts`` or ``type``: it
        is written as ``extra_ts`` or ``extra_type``.
        """
        # A whole number stays an integer, as in the original.
        whole = isinstance(seconds, int)
        self._log.phase(text_of(name), seconds if whole else float(seconds), fields(extra))

    def log_event(self, event_type: str, data: Any = None) -> None:
        """Logs an event with a dictionary or any other value. An empty value is left out."""
        if isinstance(data, dict):
            self._log.event(text_of(event_type), fields(data))
        elif _is_empty(data):
            self._log.event(text_of(event_type), [])
        else:
            self._log.event_with(text_of(event_type), _json(data))

    @contextmanager
    def phase(self, name: str, /, **extra: Any) -> Iterator[dict[str, Any]]:
        """Times the block and logs it at its end. More values can be added to the dictionary that it yields.

        An exception propagates unchanged; its class is logged as ``error``.
        """
        began = time.perf_counter()
        try:
            yield extra
        except BaseException as error:
            extra.setdefault("error", type(error).__name__)
            raise
        finally:
            self._log.phase(text_of(name), time.perf_counter() - began, fields(extra))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes all lines to a file and replaces it atomically."""
        self._log.write(os.fspath(path))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All lines so far, as dictionaries. With a ``path`` they are read back from the file and not kept in memory."""
        return [json.loads(line) for line in self._log.lines()]

    @property
    def lost(self) -> int:
        """Number of lines that could not be written to the log file, for example because the disk was full."""
        return self._log.lost

    def __len__(self) -> int:
        return len(self._log)


def fields(values: dict[str, Any]) -> list[tuple[str, str]]:
    """A dictionary with JSON values, whatever its values are."""
    return [(_key(name), _json(value)) for name, value in values.items()]


def _is_empty(value: Any) -> bool:
    try:
        return not value
    except Exception:  # An array of several numbers is neither true nor false.
        return False


def _key(name: Any) -> str:
    """The key as ``json.dumps`` writes it; any other type as text."""
    if isinstance(name, str):
        return text_of(name)
    try:
        (key,) = json.loads(json.dumps({name: None}))
    except (TypeError, ValueError):
        return text_of(str(name))
    return str(key)


def _json(value: Any) -> str:
    """Any value as JSON. Logging must never end the job."""
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except ValueError:
        # Non-finite numbers are not JSON; or the value contains itself.
        try:
            plain = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
            return json.dumps(plain)
        except ValueError:
            return json.dumps(repr(value))
    except (TypeError, RecursionError):
        return json.dumps(repr(value))


def text_of(text: str) -> str:
    """Text without lone surrogates, which come from file names that are not UTF-8."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
