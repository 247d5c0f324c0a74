"""Phases and events of a run, compared with the original."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from datetime import datetime
from pathlib import Path
from typing import Any

import gua
import pytest
from original import run_monitor as original


def lines(log: Any, path: Path) -> list[str]:
    """Written lines without their times."""
    log.write(path)
    written = path.read_text().splitlines()
    for line in written:
        stamp = json.loads(line)["ts"]
        assert datetime.fromisoformat(stamp).utcoffset() is not None and len(stamp) == 29
    return [line.split('", ', 1)[1] for line in written]


class Strange:
    def __str__(self) -> str:
        return "größer 😀"


def test_the_same_calls_give_the_same_lines(tmp_path: Path) -> None:
    def fill(log: Any) -> list[str]:
        log.log_phase("fit", 1.23456, chains=4, note="größer 😀\n", rates=[1, 2.5, None, True, 1e-7, 1e22, -0.0])
        log.log_phase("tie", 0.0005)
        log.log_phase(name="by name", seconds=2.0)
        log.log_phase("nested", 0.1, data={"z": (1, 2), "a": {"y": [], "x": {}}, 3: "three", None: 0, True: 1})
        log.log_phase("strange", 0.1, path=tmp_path, thing=Strange(), huge=10**30)
        log.log_event("empty")
        log.log_event("empty", {})
        log.log_event("data", {"z": 1, "a": None, "path": Path("/x"), 7: "seven"})
        for data in ("text", [1, 2.5], 7, 0, "", [], True, None, Strange(), ("größer", {"a": 1})):
            log.log_event("any value", data)
        for seconds in (5, 5.0, 0, -3, True):
            log.log_phase("whole", seconds)
        return lines(log, tmp_path / "lines")

    assert fill(gua.RunLog()) == fill(original.RunLog())


def test_values_that_json_cannot_hold_do_not_end_the_job(tmp_path: Path) -> None:
    itself: list[Any] = []
    itself.append(itself)
    log = gua.RunLog(tmp_path / "run.jsonl")
    log.log_phase("odd", math.nan, nan=math.inf, deep={"x": [math.nan, 1.5]}, itself=itself, keys={(1, 2): 3})
    log.log_event("bytes\udc80", {"name\udc80": "value\udc80", b"x": b"\xff"})
    phase, event = log.entries
    assert phase["seconds"] is None and phase["nan"] is None and phase["deep"] == {"x": [None, 1.5]}
    assert phase["itself"] == "[[...]]" and phase["keys"] == "{(1, 2): 3}"
    assert event["event"] == "bytes\\udc80" and event["data"]["name\\udc80"] == "value\udc80"
    # Every line is JSON for parsers that are stricter than Python.
    for line in (tmp_path / "run.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


def test_a_partial_line_of_an_earlier_run_does_not_corrupt_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"ts": "20')
    log = gua.RunLog(path)
    log.log_event("first")
    assert [entry["event"] for entry in log.entries] == ["first"]
    torn, first = path.read_text().splitlines()
    assert torn == '{"ts": "20' and json.loads(first)["event"] == "first"


def test_an_extra_value_cannot_overwrite_time_or_type() -> None:
    log = gua.RunLog()
    log.log_phase("a", 1.0, ts="never", type="x")
    (entry,) = log.entries
    assert entry["type"] == "phase" and entry["extra_type"] == "x" and entry["extra_ts"] == "never"


def test_a_phase_is_timed_and_an_exception_propagates(tmp_path: Path) -> None:
    log = gua.RunLog()
    with log.phase("good", epochs=3) as more:
        more["loss"] = 0.5
    with pytest.raises(KeyError), log.phase("bad"):
        raise KeyError("x")
    good, bad = log.entries
    assert (good["name"], good["epochs"], good["loss"]) == ("good", 3, 0.5) and "error" not in good
    assert (bad["name"], bad["error"]) == ("bad", "KeyError")
    assert len(log) == 2


def test_a_killed_job_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    script = """
        import gua, sys, time
        log = gua.RunLog(sys.argv[1])
        for number in range(100):
            log.log_event("step", {"number": number})
        print("done", flush=True)
        time.sleep(600)
    """
    job = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), path], stdout=subprocess.PIPE)
    assert job.stdout is not None and job.stdout.readline() == b"done\n"
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    job.stdout.close()
    assert [json.loads(line)["data"]["number"] for line in path.read_text().splitlines()] == list(range(100))


def test_a_file_that_cannot_be_opened_fails_at_once_and_a_full_disk_is_counted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gua.RunLog(tmp_path / "nowhere" / "run.jsonl")
    log = gua.RunLog("/dev/full")
    log.log_event("lost")
    assert (log.lost, len(log)) == (1, 1)


def test_entries_are_read_back_and_a_log_can_overwrite_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"of": "an earlier run"}\n')
    log = gua.RunLog(path)
    for number in range(3):
        log.log_event("step", {"number": number})
        log.write(path)
    assert [entry["data"]["number"] for entry in log.entries] == [0, 1, 2]
    assert len(log) == len(path.read_text().splitlines()) == 3
