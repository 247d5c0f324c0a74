"""Times and durations in the notation of the program."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Union

When = Union[str, datetime, date, timedelta]


def when(value: When) -> str:
    """A time: text as the program takes it (``"7d"``, ``"2026-11-01T12:00"``), a duration before now, or a date.

    A datetime without a zone is in the zone of the query, as on the command line.
    """
    if isinstance(value, timedelta):
        return length(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value)


def length(value: str | timedelta) -> str:
    """A duration in whole seconds, or as text (``"30s"``, ``"2h"``)."""
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    return str(value)
