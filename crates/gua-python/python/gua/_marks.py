"""Forwards phases, events and values to the ``gua run`` that started the program, if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gua import _gua
from gua._run_log import fields, text_of

__all__ = ["event", "phase", "values"]

#: Name of the phase that begins when an outermost phase ends, and lasts until the next one.
OTHER = "other"

#: Phases that have begun and not ended, of all runs of this process, the innermost last.
_open: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Marks a phase for its duration, and then the enclosing phase again."""
    name = text_of(name)
    _open.append(name)
    _gua.mark_phase(name)
    try:
        yield
    finally:
        # Phases of other threads may have begun since.
        del _open[len(_open) - 1 - _open[::-1].index(name)]
        _gua.mark_phase(_open[-1] if _open else OTHER)


def event(event_type: str, data: dict[str, Any] | None) -> None:
    """Marks an event."""
    _gua.mark_event(text_of(event_type), fields(data or {}))


def values(**values: Any) -> None:
    """Sets values for the summary."""
    _gua.mark_values(fields(values))
