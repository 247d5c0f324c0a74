"""Current state of the GPUs, and reports from a history."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypedDict

from gua import _gua
from gua._when import When, length, when

__all__ = ["report", "snapshot"]


class Words(TypedDict):
    """Arguments of a report, as ``gua report`` takes them."""

    since: str
    until: str | None
    by: str | None
    user: str | None
    gpu: list[str]
    db: str | None
    tz: str | None
    interval: str | None
    active_util: str | None
    held_mb: str | None
    count_graphics: bool


def snapshot() -> dict[str, Any]:
    """Every GPU with its state, readings and holders since when: the document that ``gua list --json`` prints.

    Values that could not be read are ``None``. Raises :class:`gua.DriverError` if the driver does not answer.
    """
    value: dict[str, Any] = json.loads(_gua.snapshot())
    return value


def report(
    since: When = "1h",
    until: When | None = None,
    *,
    by: str | None = None,
    user: str | None = None,
    gpu: str | int | Iterable[str | int] | None = None,
    db: str | os.PathLike[str] | None = None,
    tz: str | None = None,
    interval: str | timedelta | None = None,
    active_util: float | None = None,
    held_mb: int | None = None,
    count_graphics: bool = False,
) -> dict[str, Any]:
    """Who held which GPU, since when, and whether it was used: the document that ``gua report --json`` prints.

    ``since`` and ``until`` are a duration before now (``"7d"``, a ``timedelta``) or a time (``"2026-11-01"``, a ``datetime``).
    The history is that of your running daemon, otherwise the host's, otherwise your own; ``db`` names another.
    """
    gpus = [gpu] if isinstance(gpu, (str, int)) else list(gpu or ())
    words: Words = {
        "since": when(since),
        "until": None if until is None else when(until),
        "by": by,
        "user": user,
        "gpu": [str(one) for one in gpus],
        "db": None if db is None else os.fspath(db),
        "tz": tz,
        "interval": None if interval is None else length(interval),
        "active_util": None if active_util is None else f"{active_util:g}",
        "held_mb": None if held_mb is None else str(held_mb),
        "count_graphics": count_graphics,
    }
    value: dict[str, Any] = json.loads(_gua.report(words))
    return value
