"""A watched part of a program has a summary at its end, however it ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import time
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gua
import pytest
from conftest import BUILT, Gpu, Machine

Until = Callable[[Callable[[], bool]], None]


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def samplers() -> int:
    """Number of sampler threads of this process."""
    number = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # A thread that has ended since.
            number += path.read_text().strip() in ("gua-gpu", "gua-cpu")
    return number


def test_a_part_of_a_program_is_watched(machine: Machine, tmp_path: Path, until: Until) -> None:
    machine.play(Gpu(util=30, used=512))
    out = tmp_path / "out"
    with gua.monitor(out, interval_sec=0.02) as run:
        with run.phase("fit", epochs=2):
            until(lambda: count(out / "cpu_metrics.csv") >= 3)
        run.event("checkpoint", {"step": 7})
        assert [entry["type"] for entry in map(json.loads, (out / "run.jsonl").read_text().splitlines())] == [
            "event",
            "phase",
            "event",
        ]
        assert run.summary is None
    assert run.summary is not None and run.seconds is not None and run.fault is None
    assert run.summary.gpu_util_mean_pct == 30.0 and run.summary.peak_vram_mb == 512.0
    assert run.unmeasured == []
    written = json.loads((out / "summary.json").read_text())
    expected = run.summary.to_dict()
    assert {name: written[name] for name in expected} == expected
    assert written["run"]["seconds"] == round(run.seconds, 3) and written["unmeasured"] == []
    last = json.loads((out / "run.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "run_ended" and last["data"]["seconds"] == round(run.seconds, 3)


def test_the_peak_of_a_program_that_uses_jax_is_in_its_summary(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: {"peak_bytes_in_use": 3 << 20})
    jax = types.ModuleType("jax")
    jax.local_devices = lambda: [device]  # type: ignore[attr-defined]
    for module, peak in ((jax, 3.0), (None, 0.0)):
        with gua.monitor(interval_sec=0.02) as run:
            # Only a JAX that the program itself has imported is used.
            if module is None:
                monkeypatch.delitem(sys.modules, "jax")
            else:
                monkeypatch.setitem(sys.modules, "jax", module)
        assert run.summary is not None and run.summary.jax_peak_bytes_mb == peak


def test_without_a_directory_nothing_is_left_behind(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = tmp_path / "passing"
    passing.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(passing))
    with gua.monitor(interval_sec=0.02) as run:
        time.sleep(0.2)
    assert run.summary is not None and run.output_dir is None
    assert list(passing.iterdir()) == []


def test_an_exception_propagates_and_is_logged(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), gua.monitor(tmp_path / "out", interval_sec=0.02) as run:
        1 / 0
    assert run.log.entries[-1]["data"]["error"] == "ZeroDivisionError"
    assert (tmp_path / "out" / "summary.json").exists()


def test_functions_are_watched_call_by_call(machine: Machine) -> None:
    runs: list[gua.Run] = []

    @gua.monitor(interval_sec=0.02, on_end=runs.append)
    def factorial(number: int) -> int:
        """Multiplies."""
        return 1 if number == 0 else number * factorial(number - 1)

    @gua.monitor(interval_sec=0.02, on_end=runs.append)
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    assert factorial(2) == 2 and factorial.__doc__ == "Multiplies."
    assert len(runs) == 3
    assert asyncio.run(wait(0.1)) == "waited"
    assert len(runs) == 4 and runs[3].seconds is not None and runs[3].seconds >= 0.1


def test_forgotten_parentheses_are_reported() -> None:
    with pytest.raises(TypeError, match="with brackets"):

        @gua.monitor  # type: ignore[arg-type]
        def function() -> None: ...


def test_generators_are_watched_from_their_first_value_to_their_last(machine: Machine, until: Until) -> None:
    runs: list[gua.Run] = []

    @gua.monitor(interval_sec=0.02, on_end=runs.append)
    def echo(most: int) -> Any:
        """Gives back."""
        got: list[object] = []
        while len(got) < most:
            try:
                got.append((yield len(got)))
            except KeyError as error:
                got.append(type(error).__name__)
        return got

    def end(values: Any) -> Any:
        with pytest.raises(StopIteration) as ended:
            next(values)
        return ended.value.value

    values = echo(3)
    assert echo.__doc__ == "Gives back." and samplers() == 0, "nothing has begun"
    assert next(values) == 0 and runs == []
    until(lambda: samplers() == 2)
    assert values.send("a") == 1 and values.throw(KeyError()) == 2
    assert end(values) == ["a", "KeyError", None]
    assert len(runs) == 1 and runs[0].error is None
    until(lambda: samplers() == 0)

    values = echo(3)
    next(values)
    values.close()
    assert len(runs) == 2 and runs[1].error is None, "who stops asking has not failed"
    with pytest.raises(ZeroDivisionError):
        values = echo(3)
        next(values)
        values.throw(ZeroDivisionError())
    assert len(runs) == 3 and runs[2].error == "ZeroDivisionError"
    until(lambda: samplers() == 0)


def test_async_generators_are_watched_too(machine: Machine, until: Until) -> None:
    runs: list[gua.Run] = []
    closed: list[str] = []

    @gua.monitor(interval_sec=0.02, on_end=runs.append)
    async def echo(most: int) -> Any:
        got: list[object] = []
        try:
            while len(got) < most:
                await asyncio.sleep(0)
                try:
                    got.append((yield list(got)))
                except KeyError as error:
                    got.append(type(error).__name__)
        finally:
            closed.append("closed")

    async def use() -> None:
        values = echo(3)
        assert await values.__anext__() == []
        until(lambda: samplers() == 2)
        assert await values.asend("a") == ["a"]
        assert await values.athrow(KeyError()) == ["a", "KeyError"]
        with pytest.raises(StopAsyncIteration):
            await values.asend("c")
        assert len(runs) == 1 and runs[0].error is None
        until(lambda: samplers() == 0)
        assert [value async for value in echo(2)] == [[], [None]]
        values = echo(3)
        await values.__anext__()
        await values.aclose()
        assert runs[2].error is None and len(closed) == 3
        values = echo(3)
        await values.__anext__()
        with pytest.raises(ZeroDivisionError):
            await values.athrow(ZeroDivisionError())
        assert runs[3].error == "ZeroDivisionError" and len(closed) == 4
        until(lambda: samplers() == 0)

    asyncio.run(use())


@pytest.mark.parametrize("gpus", ["foo", "", "0,foo", -1, 1.5, ["0", "foo"], "ALL", [None]])
def test_an_invalid_gpu_fails_at_once(gpus: Any) -> None:
    for make in (gua.HWMonitor, gua.monitor):
        with pytest.raises((ValueError, TypeError), match="gpus|float"):
            make(gpus=gpus)


def break_it(out: Path) -> None:
    """Replaces a file of the run by a directory, so that it cannot be read."""
    (out / "cpu_metrics.csv").unlink()
    (out / "cpu_metrics.csv").mkdir()


def test_a_failure_of_the_watching_is_a_warning_and_the_jobs_exception_propagates(
    machine: Machine, tmp_path: Path, until: Until
) -> None:
    out = tmp_path / "out"

    def watched(error: Exception | None) -> gua.Run:
        with gua.monitor(out, interval_sec=0.02) as run:
            until(lambda: count(out / "cpu_metrics.csv") >= 2)
            break_it(out)
            if error is not None:
                raise error
        return run

    with pytest.warns(RuntimeWarning, match="could not be summed up.*cpu_metrics.csv"):
        run = watched(None)
    assert run.summary == gua.ResourceSummary() and len(run.unmeasured) == 6
    (out / "cpu_metrics.csv").rmdir()
    with pytest.warns(RuntimeWarning, match="could not be summed up"), pytest.raises(KeyError, match="mine"):
        watched(KeyError("mine"))
    (out / "cpu_metrics.csv").rmdir()
    # The same with warnings turned into errors.
    with warnings.catch_warnings(), pytest.raises(KeyError, match="mine"):
        warnings.simplefilter("error")
        watched(KeyError("mine"))


def test_a_failing_on_end_callback_does_not_replace_the_jobs_exception(machine: Machine) -> None:
    def fail(run: gua.Run) -> None:
        raise OSError("of on_end")

    with pytest.warns(RuntimeWarning, match="of on_end"), pytest.raises(KeyError, match="mine"):
        with gua.monitor(interval_sec=0.02, on_end=fail):
            raise KeyError("mine")
    with pytest.raises(OSError, match="of on_end"), gua.monitor(interval_sec=0.02, on_end=fail):
        pass


def test_a_run_that_cannot_start_leaves_no_samplers_behind(machine: Machine, tmp_path: Path, until: Until) -> None:
    (tmp_path / "run.jsonl").mkdir()
    with pytest.raises(IsADirectoryError) as raised, gua.monitor(tmp_path, interval_sec=0.02):
        pytest.fail("it has not begun")
    until(lambda: samplers() == 0)
    # Until here its traceback kept the objects of its frames alive.
    del raised


def test_under_gua_run_phases_events_and_values_are_forwarded_to_that_run(machine: Machine, tmp_path: Path) -> None:
    script = """
        import sys, time, types
        import gua
        device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: {"peak_bytes_in_use": 3 << 20})
        sys.modules["jax"] = types.SimpleNamespace(local_devices=lambda: [device])
        with gua.monitor("inner", interval_sec=0.02) as run:
            with run.phase("fit", epochs=3):
                with run.phase("load"):
                    time.sleep(0.05)
                time.sleep(0.05)
            run.event("saved", {"step": 7})
            time.sleep(0.05)
        assert [entry.get("name") for entry in run.log.entries if entry["type"] == "phase"] == ["load", "fit"]
    """
    words = [BUILT / "gua", "run", "--out", "outer", "--interval", "20ms", "--gpus", "all", "--"]
    done = subprocess.run([*words, sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "outer/summary.json").read_text())
    assert [phase["name"] for phase in summary["phases"]] == ["fit", "load", "fit", "other"]
    assert summary["jax_peak_bytes_mb"] == 3.0
    entries = [json.loads(line) for line in (tmp_path / "outer/run.jsonl").read_text().splitlines()]
    assert [entry["data"] for entry in entries if entry.get("event") == "saved"] == [{"step": 7}]
    assert sum(entry.get("event") == "run_started" for entry in entries) == 1
    output = subprocess.run([BUILT / "gua", "summarize", tmp_path / "inner", "--json"], capture_output=True, check=True)
    assert json.loads(output.stdout)["jax_peak_bytes_mb"] == 3.0
