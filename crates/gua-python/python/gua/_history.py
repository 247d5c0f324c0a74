"""A history and its tables, for Python, pandas and polars."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from gua import _gua
from gua._look import report
from gua._when import When, when

__all__ = ["Column", "History", "Table"]


class Wanted(TypedDict):
    """Selected rows of a table, as ``gua export`` takes them."""

    db: str
    what: str
    since: str | None
    until: str | None
    tz: str | None


class Column(NamedTuple):
    """One column of a table."""

    #: Its name, which carries the unit.
    name: str
    #: Type of its values.
    type: str
    #: Its meaning.
    about: str


class Table:
    """Rows of a history. They are read on demand, and memory use does not grow with their number.

    It is an Arrow stream (``__arrow_c_stream__``), so ``polars.DataFrame(table)``, ``pandas.DataFrame.from_arrow(table)`` and
    ``pyarrow.table(table)`` accept it directly. Iterating over it yields one dictionary per row, as in ``gua export --format
    jsonl``. Each iteration reads it again.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream. A requested schema is ignored."""
        return _gua.arrow_stream(self._wanted)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for lines in _gua.Lines(self._wanted):
            for line in lines:
                yield json.loads(line)

    def rows(self) -> list[dict[str, Any]]:
        """All rows at once."""
        return list(self)

    @property
    def columns(self) -> list[Column]:
        """Columns of the table; docs/export.md has the same."""
        return [Column(*column) for column in _gua.table_columns(self._wanted)]

    def __repr__(self) -> str:
        wanted = self._wanted
        return f"<gua.Table {wanted['what']} of {wanted['db']}>"


class History:
    """A history file, read in place, even while a daemon writes it.

    Without ``db`` it is that of your running daemon, otherwise the host's, otherwise your own. :func:`gua.report` reads
    files of gpu-usage-audit in place; ``gua import`` imports them into a history.
    """

    def __init__(self, db: str | os.PathLike[str] | None = None) -> None:
        self._db = os.fspath(_gua.history_path(None if db is None else os.fspath(db)))
        # Fail now if the file cannot be read, and not at the first row.
        self._facts()

    @property
    def path(self) -> Path:
        """Path of the file."""
        return Path(self._db)

    def info(self) -> dict[str, Any]:
        """The host, the number and period of the ticks, and the size of the file."""
        info: dict[str, Any] = self._facts()["info"]
        return info

    def gpus(self) -> list[dict[str, Any]]:
        """Every GPU that was ever seen, as last seen."""
        gpus: list[dict[str, Any]] = self._facts()["gpus"]
        return gpus

    def collectors(self) -> list[dict[str, Any]]:
        """All collector runs."""
        runs: list[dict[str, Any]] = self._facts()["collectors"]
        return runs

    def outages(self, since: When | None = None, until: When | None = None) -> list[dict[str, Any]]:
        """Outages: when the GPUs were not observed, and why."""
        outages: list[dict[str, Any]] = json.loads(_gua.history_outages(self._wanted("samples", since, until, None)))
        return outages

    def samples(self, since: When | None = None, until: When | None = None, *, tz: str | None = None) -> Table:
        """One row for each GPU at each tick: readings, state, and the time that they cover."""
        return Table(self._wanted("samples", since, until, tz))

    def processes(self, since: When | None = None, until: When | None = None, *, tz: str | None = None) -> Table:
        """One row for each process on each GPU at each tick."""
        return Table(self._wanted("processes", since, until, tz))

    def sessions(self, since: When | None = None, until: When | None = None, *, tz: str | None = None) -> Table:
        """One row for each process that held a GPU, from when to when."""
        return Table(self._wanted("sessions", since, until, tz))

    def totals(self, since: When | None = None, until: When | None = None, *, tz: str | None = None) -> Table:
        """One row for each GPU in each quarter hour."""
        return Table(self._wanted("totals", since, until, tz))

    def user_totals(self, since: When | None = None, until: When | None = None, *, tz: str | None = None) -> Table:
        """One row for each person on each GPU in each quarter hour."""
        return Table(self._wanted("user-totals", since, until, tz))

    def report(self, since: When = "1h", until: When | None = None, **words: Any) -> dict[str, Any]:
        """Same as :func:`gua.report`, for this history."""
        return report(since, until, db=self._db, **words)

    def __repr__(self) -> str:
        return f"gua.History({self._db!r})"

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(_gua.history_facts(self._db))
        return facts

    def _wanted(self, what: str, since: When | None, until: When | None, tz: str | None) -> Wanted:
        return {
            "db": self._db,
            "what": what,
            "since": None if since is None else when(since),
            "until": None if until is None else when(until),
            "tz": tz,
        }
