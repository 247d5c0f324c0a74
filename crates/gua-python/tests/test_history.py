"""The tables of a history: the same rows for Python, pandas, polars and the program."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import gua
import pandas
import polars
import pyarrow
import pytest
from conftest import BUILT, Machine

TABLES = ["samples", "processes", "sessions", "totals", "user_totals"]


@pytest.fixture
def history(machine: Machine) -> gua.History:
    """A history of generated data."""
    db = machine.home / "demo.db"
    subprocess.run([BUILT / "gua", "demo", "--db", db], check=True, stdout=subprocess.DEVNULL)
    return gua.History(db)


def exported(history: gua.History, table: str) -> list[dict[str, Any]]:
    """Rows that the program exports."""
    words = ["export", "--db", str(history.path), "--what", table.replace("_", "-"), "--format", "jsonl"]
    done = subprocess.run([BUILT / "gua", *words], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_in_every_library(history: gua.History, table: str) -> None:
    read: Callable[[], gua.Table] = getattr(history, table)
    rows = read().rows()
    assert rows and rows == exported(history, table)
    names = [column.name for column in read().columns]
    assert list(rows[0]) == names

    arrow = pyarrow.table(read())
    assert arrow.column_names == names and arrow.num_rows == len(rows)
    of_pandas = pandas.DataFrame.from_arrow(read())
    of_polars = polars.DataFrame(read())
    assert of_pandas.shape == of_polars.shape == (len(rows), len(names))
    for name in names:
        values = arrow.column(name).to_pylist()
        for row, value in zip(rows, values, strict=True):
            if isinstance(value, datetime):
                assert datetime.fromisoformat(row[name].replace("Z", "+00:00")) == value, name
            else:
                assert row[name] == value, name
        numbers = [row[name] for row in rows if isinstance(row[name], (int, float)) and not isinstance(row[name], bool)]
        if numbers:
            assert of_polars[name].sum() == pytest.approx(sum(numbers)), name
            assert of_pandas[name].sum() == pytest.approx(sum(numbers)), name
        assert of_polars[name].null_count() == sum(row[name] is None for row in rows), name


def test_a_window_selects_a_part(history: gua.History) -> None:
    def counted(table: gua.Table) -> int:
        return sum(row["counted_us"] for row in table)

    first = datetime.fromisoformat(history.info()["first_tick"].replace("Z", "+00:00"))
    middle = first + timedelta(seconds=10.5)
    parts = [counted(history.samples(until=middle)), counted(history.samples(middle))]
    assert all(parts) and sum(parts) == counted(history.samples())
    empty = history.samples(until=first - timedelta(days=1))
    assert empty.rows() == []
    assert pyarrow.table(empty).column_names == [column.name for column in empty.columns]


def test_a_reader_can_stop_early(history: gua.History) -> None:
    rows = iter(history.samples())
    assert "gpu_uuid" in next(rows)
    del rows
    reader = pyarrow.RecordBatchReader.from_stream(history.samples())
    assert reader.read_next_batch().num_rows > 0
    del reader
    capsule = history.samples().__arrow_c_stream__()
    del capsule


def test_info_gpus_and_collectors_are_listed(history: gua.History) -> None:
    info = history.info()
    assert info["ticks"] > 0 and info["bytes"] > 0
    gpus = history.gpus()
    assert {gpu["uuid"] for gpu in gpus} == {row["gpu_uuid"] for row in history.samples()}
    assert len(history.report("9d")["gpus"]) == len(gpus)
    assert history.collectors()[0]["interval_seconds"] > 0
    assert history.outages() == []
    assert repr(history) == f"gua.History({str(history.path)!r})"
    assert datetime.fromisoformat(info["last_tick"].replace("Z", "+00:00")).tzinfo == timezone.utc


def test_a_missing_history_fails_at_once(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="hint"):
        gua.History(tmp_path / "nowhere.db")
    with pytest.raises(ValueError):
        gua.History()  # The home directory is empty.
    other = tmp_path / "text.db"
    other.write_text("this is no history\n" * 100)
    with pytest.raises((gua.HistoryError, ValueError)):
        gua.History(other)


def test_the_tables_of_the_service_are_those_of_its_file(
    history: gua.History, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.home / "gua.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        reader = subprocess.Popen([BUILT / "gua", "__answers", history.path], stdin=listener)
    try:
        monkeypatch.setenv("GUA_SOCKET", str(path))
        monkeypatch.setenv("GUA_SERVICE_DB", str(machine.home / "closed.db"))
        service = gua.History()
        assert service.path != history.path
        for table in TABLES:
            assert getattr(service, table)().rows() == getattr(history, table)().rows()
        assert pyarrow.table(service.samples()) == pyarrow.table(history.samples())
        assert service.gpus() == history.gpus()
        assert service.collectors() == history.collectors()
        assert service.outages() == history.outages()
        assert service.info()["ticks"] == history.info()["ticks"]
    finally:
        reader.kill()
        reader.wait()
