"""Snapshots and reports are the same as the program prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import gua
import pytest
from conftest import BUILT, Gpu, Machine


def program(*words: str) -> Any:
    """Output of the program that the wheel contains."""
    beside = Path(sys.executable).parent / "gua"
    done = subprocess.run([beside, *words], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def test_the_wheel_contains_the_program() -> None:
    beside = Path(sys.executable).parent / "gua"
    version = subprocess.run([beside, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert version == gua.__version__


def test_a_snapshot_is_what_the_program_lists(machine: Machine) -> None:
    pid = os.getpid()
    machine.play(
        Gpu(util=43, used=2048, more=f"[[gpu.process]]\npid = {pid}\nmemory_mib = 1024\n"),
        Gpu(used=10),
    )
    ours, theirs = gua.snapshot(), program("list", "--json")
    for listing in (ours, theirs):
        listing.pop("at")
        for gpu in listing["gpus"]:
            gpu.pop("oldest_holder_seconds")
            for holder in gpu["holders"]:
                holder.pop("age_seconds")
    assert ours == theirs
    assert ours["gpus"][0]["util_percent"] == 43
    assert ours["gpus"][0]["holders"][0]["pid"] == pid


def test_a_report_is_what_the_program_reports(machine: Machine) -> None:
    db = machine.home / "demo.db"
    subprocess.run([BUILT / "gua", "demo", "--db", db], check=True, stdout=subprocess.DEVNULL)
    words = ["report", "--json", "--db", str(db), "--until", "2099-01-01", "--tz", "UTC"]
    ours = gua.report("9d", "2099-01-01", db=db, tz="UTC")
    theirs = program(*words, "--since", "9d")
    for one in (ours, theirs):
        one.pop("made_at")
        one.pop("window")
    assert ours["schema"] == "gua.report.v1"
    assert ours["totals"] == theirs["totals"]
    assert ours.keys() == theirs.keys()
    assert [user["user"] for user in ours["users"]] == [user["user"] for user in theirs["users"]]


def test_times_can_be_python_objects(machine: Machine) -> None:
    db = machine.home / "demo.db"
    subprocess.run([BUILT / "gua", "demo", "--db", db], check=True, stdout=subprocess.DEVNULL)
    begin = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    window = gua.report(begin, begin + timedelta(days=1), db=db)["window"]
    assert [datetime.fromisoformat(window[end].replace("Z", "+00:00")) for end in ("from", "to")] == [
        begin,
        begin + timedelta(days=1),
    ]
    assert gua.report(timedelta(days=2), db=db, gpu=0, by="user")["schema"] == "gua.report.v1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"since": "soon"}, "^since: "),
        ({"by": "colour"}, "by must be one of user, gpu"),
        ({"tz": "Mars/Base"}, "^tz: no time zone"),
        ({"until": "2026-02-31"}, "^until: no such date"),
        ({"by": "state", "user": "ada"}, "^by: `state` covers GPUs"),
        ({"held_mb": -1}, "^held_mb: "),
        ({"db": "/nonexistent.db"}, "no history"),
        ({"interval": "x"}, "^interval: "),
    ],
)
def test_an_invalid_argument_is_a_value_error(machine: Machine, words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gua.report(**words)


def test_a_damaged_file_is_a_history_error(machine: Machine) -> None:
    db = machine.home / "demo.db"
    subprocess.run([BUILT / "gua", "demo", "--db", db], check=True, stdout=subprocess.DEVNULL)
    content = bytearray(db.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    db.write_bytes(content)
    with pytest.raises((gua.HistoryError, ValueError)):
        gua.report(db=db)


def test_many_threads_can_read_at_once(machine: Machine) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(gua.snapshot()["gpus"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8


def test_a_forked_child_reads_the_driver_itself(machine: Machine) -> None:
    assert gua.available_gpus() == ["0"]
    child = os.fork()
    if child == 0:
        os._exit(0 if gua.available_gpus() == ["0"] else 1)
    assert os.waitpid(child, 0)[1] == 0
