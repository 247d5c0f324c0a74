"""Ten numbers from the metric files of a run, compared with the original."""

from __future__ import annotations

import dataclasses
import inspect
import random
import sys
import types
from pathlib import Path

import gua
import pytest
from original import run_monitor as original

HEAD = "timestamp,usr_pct,idle_pct\n"


def gpu_line(util: object, memory: object, power: object) -> str:
    return f"2026/05/11 00:00:00.000, {util}, 5, {memory}, 40960, {power}, 41, 1410, 1215\n"


def test_names_arguments_and_fields_match_the_original() -> None:
    for name in ("build_resource_summary", "RunLog.log_phase", "RunLog.log_event", "RunLog.write", "HWMonitor.start", "HWMonitor.stop"):
        ours: object = gua
        theirs: object = original
        for part in name.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        described = [
            [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]
            for function in (ours, theirs)  # type: ignore[arg-type]
        ]
        assert described[0] == described[1], name
    fields = [[(one.name, one.default) for one in dataclasses.fields(module.ResourceSummary)] for module in (gua, original)]
    assert fields[0] == fields[1]


def test_numbers_are_shown_as_in_the_original() -> None:
    dice = random.Random(7)
    names = [one.name for one in dataclasses.fields(gua.ResourceSummary)]
    cases = [{}, dict.fromkeys(names, 191.25), dict.fromkeys(names, 0.05)]
    cases += [{name: dice.choice([0.0, dice.uniform(0, 1e6), dice.randrange(400) / 8]) for name in names} for _ in range(200)]
    for numbers in cases:
        ours, theirs = gua.ResourceSummary(**numbers).to_dict(), original.ResourceSummary(**numbers).to_dict()
        assert ours == theirs and list(ours) == list(theirs), numbers


def test_the_originals_files_give_the_originals_numbers(tmp_path: Path) -> None:
    dice = random.Random(11)
    for number in range(20):
        gpu, cpu, dmon = (tmp_path / f"{name}{number}" for name in ("gpu", "cpu", "dmon"))
        lines = [gpu_line(dice.randrange(101), dice.randrange(40960), round(dice.uniform(20, 400), 2)) for _ in range(number)]
        # A missing value costs the whole line.
        lines += [gpu_line(100, 99999, "[N/A]"), gpu_line("[N/A]", 99999, 400)]
        gpu.write_text("".join(lines + ["cut, off\n"]))
        cpu.write_text(HEAD + "".join(f"t,{dice.uniform(0, 100):.1f},{dice.uniform(0, 100):.1f}\n" for _ in range(number)) + "t,-,99.0\nt,9.0,-\n")
        # `dmon -s um`, where the column that the original takes is the right one.
        rows = "".join(f"    0 {dice.randrange(101):6} {dice.randrange(101):6} 0 0\n" for _ in range(number))
        dmon.write_text("# gpu     sm    mem    enc    dec\n# Idx      %      %      %      %\n" + rows)
        ours, theirs = (module.build_resource_summary(gpu, cpu, dmon) for module in (gua, original))
        assert ours.to_dict() == theirs.to_dict()


def test_the_column_that_the_original_confuses_is_found_by_its_name(tmp_path: Path) -> None:
    dmon = tmp_path / "hw_dmon.csv"
    dmon.write_text("# gpu     fb   bar1   ccpm     sm    mem\n# Idx     MB     MB     MB      %      %\n 0 1024 10 0 45 12\n")
    assert gua.build_resource_summary(None, None, dmon).mem_util_mean_pct == 12.0
    assert original.build_resource_summary(None, None, dmon).mem_util_mean_pct == 10.0


def test_missing_files_leave_zeros(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert gua.build_resource_summary(nowhere, None) == gua.ResourceSummary()
    assert gua.build_resource_summary(str(nowhere), str(nowhere), None).to_dict() == original.ResourceSummary().to_dict()
    with pytest.raises(IsADirectoryError):
        gua.build_resource_summary(tmp_path, None)


def jax_with(monkeypatch: pytest.MonkeyPatch, *devices: object) -> None:
    """A stand-in for JAX, with these devices."""
    jax = types.ModuleType("jax")
    jax.local_devices = lambda: list(devices)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", jax)


def device(platform: str, stats: dict[str, int] | None) -> object:
    return types.SimpleNamespace(platform=platform, memory_stats=lambda: stats)


def test_jax_reports_the_peak_of_its_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(expected: float, *devices: object) -> None:
        jax_with(monkeypatch, *devices)
        assert gua.probe_jax_peak_memory_mb() == original.probe_jax_peak_memory_mb() == expected

    check(0.0)
    check(0.0, device("cpu", {"peak_bytes_in_use": 1 << 30}))
    check(1.5, device("gpu", {"peak_bytes_in_use": 3 << 19}))
    check(2.0, device("cpu", None), device("gpu", {"peak_bytes_in_use": 2 << 20}), device("gpu", {"peak_bytes_in_use": 9 << 20}))
    check(0.0, device("gpu", None))
    check(0.0, device("gpu", {}))
    check(0.0, types.SimpleNamespace(platform="gpu"))
    jax_with(monkeypatch, device("gpu", {"peak_bytes_in_use": 2 << 20}), device("gpu", {"peak_bytes_in_use": 9 << 20}))
    assert gua.probe_jax_peak_memory_mb(every_device=True) == 9.0


def test_without_jax_there_is_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    assert gua.probe_jax_peak_memory_mb() == original.probe_jax_peak_memory_mb() == 0.0


def test_jax_on_cpus_has_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax", reason="scripts/test-python could not install JAX here")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert gua.probe_jax_peak_memory_mb() == original.probe_jax_peak_memory_mb() == 0.0
