"""GPUs and CPUs while a job runs, compared with the original and with a hung driver."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gua
import pytest
from conftest import Gpu, Machine
from original import run_monitor as original

HANG = '[[fault]]\nfunction = "nvmlDeviceGet*"\nhang = true\n'
FILES = ("hw_metrics.csv", "cpu_metrics.csv", "hw_dmon.csv")
Until = Callable[[Callable[[], bool]], None]


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def watched(monitor: Any, out: Path, interval: float, until: Until) -> Any:
    """Runs a monitor until it has rows of every kind."""
    monitor.start(out, interval)
    # The original writes its CPU file at the end.
    until(lambda: count(out / FILES[0]) >= 2 and count(out / FILES[2]) >= 3)
    time.sleep(2.5 * interval)
    return monitor.stop()


def test_it_samples_as_the_original_does(
    machine: Machine, nvidia_smi: Callable[[], None], tmp_path: Path, until: Until
) -> None:
    machine.play(Gpu(util=40, memory_util=7, used=2048, power=51.5), Gpu(util=80, used=100))
    nvidia_smi()
    summaries, layouts = [], []
    for module in (gua, original):
        out = tmp_path / module.__name__
        files = watched(module.HWMonitor(), out, 1, until)
        assert files == tuple(out / name for name in FILES)
        summary = module.build_resource_summary(*files)
        assert summary.cpu_usr_mean_pct + summary.cpu_idle_mean_pct > 0
        summaries.append(summary.to_dict())
        layouts.append(len((out / FILES[0]).read_text().splitlines()[0].split(", ")))
        assert (out / FILES[1]).read_text().splitlines()[0] == "timestamp,usr_pct,idle_pct"
    ours, theirs = summaries
    for numbers in summaries:
        for name in ("cpu_usr_mean_pct", "cpu_idle_mean_pct"):
            numbers.pop(name)
    # The original takes BAR1 memory for memory utilisation.
    assert (ours.pop("mem_util_mean_pct"), ours.pop("mem_util_max_pct")) == (3.5, 7.0)
    assert (theirs.pop("mem_util_mean_pct"), theirs.pop("mem_util_max_pct")) == (3.0, 3.0)
    assert ours == theirs == {
        "peak_vram_mb": 2048.0,
        "gpu_util_mean_pct": 60.0,
        "gpu_util_max_pct": 80.0,
        "power_watts_mean": 50.8,
        "power_watts_max": 51.5,
    }
    assert layouts == [9, 9]


def test_the_original_sums_up_our_files(machine: Machine, tmp_path: Path, until: Until) -> None:
    machine.play(Gpu(util=40, memory_util=7))
    files = watched(gua.HWMonitor(), tmp_path / "out", 0.05, until)
    assert original.build_resource_summary(*files).to_dict() == gua.build_resource_summary(*files).to_dict()


@pytest.mark.parametrize(
    ("gpus", "visible", "util"),
    [("auto", None, 50.0), ("auto", "1", 100.0), ("all", "1", 50.0), ("0", "1", 0.0), ([0, "1"], None, 50.0), (1, None, 100.0)],
)
def test_only_the_gpus_given_to_the_program_are_sampled(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until, gpus: Any, visible: str | None, util: float
) -> None:
    machine.play(Gpu(util=0), Gpu(util=100))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    files = watched(gua.HWMonitor(gpus=gpus), tmp_path / "out", 0.02, until)
    assert gua.build_resource_summary(*files).gpu_util_mean_pct == util


def test_without_a_driver_only_cpus_are_sampled(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setenv("GUA_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1")
    monkeypatch.setenv("PATH", "")
    results = []
    for module in (gua, original):
        monitor = module.HWMonitor()
        monitor.start(tmp_path / module.__name__, 1)
        time.sleep(2.2)
        results.append(monitor.stop())
    for result, module in zip(results, (gua, original), strict=True):
        assert result == (None, tmp_path / module.__name__ / "cpu_metrics.csv", None)


def test_a_monitor_can_be_used_again_and_stopped_twice(machine: Machine, tmp_path: Path, until: Until) -> None:
    monitor = gua.HWMonitor()
    assert monitor.stop() == original.HWMonitor().stop() == (None, None, None)
    for name in ("first", "second"):
        assert watched(monitor, tmp_path / name, 0.02, until)[0] == tmp_path / name / FILES[0]
    assert monitor.stop() == (None, None, None)
    monitor.start(tmp_path / "third")
    del monitor  # It was not stopped; it ends by itself.


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf")])
def test_an_interval_must_be_positive(machine: Machine, tmp_path: Path, interval: float) -> None:
    with pytest.raises(ValueError, match="interval_sec"):
        gua.HWMonitor().start(tmp_path, interval)


def test_a_directory_that_cannot_be_created_fails_at_once(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        gua.HWMonitor().start(tmp_path / "file" / "out")


def test_a_hung_driver_blocks_nobody(machine: Machine, tmp_path: Path) -> None:
    """In a separate process: a thread that hangs in the driver never returns."""
    script = """
        import gua, pathlib, signal, sys, threading, time
        out, scenario = map(pathlib.Path, sys.argv[1:])
        monitor = gua.HWMonitor()
        monitor.start(out, 0.05)
        while not (out / "hw_metrics.csv").read_text():
            time.sleep(0.01)
        ticks = 0
        def tick():
            global ticks
            while True:
                ticks += 1
                time.sleep(0.01)
        threading.Thread(target=tick, daemon=True).start()
        fresh = scenario.with_suffix(".new")
        fresh.write_text(scenario.read_text() + sys.stdin.read())
        fresh.rename(scenario)
        size = -1
        while (now := (out / "hw_metrics.csv").stat().st_size) != size:
            size = now
            time.sleep(1)
        before, began = ticks, time.monotonic()
        files = monitor.stop()
        took, others = time.monotonic() - began, ticks - before
        assert 1 < took < 5, took
        assert others > 10 * took, "the interpreter's lock was held"
        assert files[0] == out / "hw_metrics.csv" and files[1] is not None
        assert "did not answer" in monitor.fault, monitor.fault
        def interrupt(number, frame):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        began = time.monotonic()
        try:
            gua.snapshot()
        except KeyboardInterrupt:
            pass
        assert time.monotonic() - began < 3, "a signal had to wait for the driver"
        began = time.monotonic()
        try:
            gua.snapshot()
        except gua.DriverTimeout as error:
            assert isinstance(error, TimeoutError)
        else:
            raise AssertionError("no timeout")
        assert time.monotonic() - began < 9
        print("fine")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "out", machine.scenario],
        env=os.environ | {"GUA_DRIVER_DEADLINE": "4s"},
        input=HANG,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_a_forked_child_does_not_wait_for_threads_of_its_parent(machine: Machine, tmp_path: Path) -> None:
    monitor = gua.HWMonitor()
    monitor.start(tmp_path / "out", 0.05)
    child = os.fork()
    if child == 0:
        began = time.monotonic()
        os._exit(0 if monitor.stop() == (None, None, None) and time.monotonic() - began < 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert monitor.stop()[2] is not None


def test_sampling_does_not_hold_the_interpreters_lock(machine: Machine, tmp_path: Path, until: Until) -> None:
    """A thread that never releases the lock does not prevent lines from being written."""
    machine.play(Gpu(util=1))
    out = tmp_path / "out"
    monitor = gua.HWMonitor()
    monitor.start(out, 0.02)
    until(lambda: count(out / FILES[0]) >= 1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        began = count(out / FILES[0])
        sum(range(20_000_000))
        wrote = count(out / FILES[0]) - began
    finally:
        sys.setswitchinterval(before)
        monitor.stop()
    assert wrote >= 3, wrote
