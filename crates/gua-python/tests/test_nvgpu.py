"""Free GPUs, compared with the released nvgpu."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import gua
import nvgpu as original
import pytest
from conftest import Gpu, Machine

GPUS = [
    Gpu(used=0),
    Gpu(used=8192, total=40960),  # exactly 20 %
    Gpu(used=8193, total=40960),
    Gpu(used=24000, total=24576, name="NVIDIA GeForce RTX 3090"),
]


def test_the_same_gpus_give_the_same_answers(machine: Machine, nvidia_smi: Callable[[], None]) -> None:
    machine.play(*GPUS)
    nvidia_smi()
    assert gua.gpu_info() == original.gpu_info()
    assert [list(gpu) for gpu in gua.gpu_info()] == [list(gpu) for gpu in original.gpu_info()]
    for limit in (0, 19.99, 20, 20.1, 100):
        assert gua.available_gpus(limit) == original.available_gpus(limit), limit
    assert gua.available_gpus() == original.available_gpus() == ["0", "1"]


def test_a_user_of_nvgpu_changes_one_line() -> None:
    for name in ("gpu_info", "available_gpus"):
        ours = inspect.signature(getattr(gua.nvgpu, name)).parameters
        theirs = inspect.signature(getattr(original, name)).parameters
        assert [(one.name, one.default) for one in ours.values()] == [(one.name, one.default) for one in theirs.values()]


def test_a_value_that_the_driver_does_not_report_is_none_and_not_zero(machine: Machine) -> None:
    machine.play(Gpu(), more='[[fault]]\nfunction = "nvmlDeviceGetMemoryInfo*"\ncode = 3\n')
    (gpu,) = gua.gpu_info()
    assert gpu["mem_used"] is None and gpu["mem_total"] is None and gpu["mem_used_percent"] is None
    # With unified memory no memory is reported; a GPU without a holder is free.
    assert gua.available_gpus() == ["0"]


def test_without_a_driver_it_raises_file_not_found_as_without_nvidia_smi(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUA_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1")
    monkeypatch.setenv("PATH", "")
    for _ in range(2):  # The second call gives the same error, although the driver is not retried for a while.
        with pytest.raises(gua.DriverMissing, match="install the NVIDIA driver") as caught:
            gua.available_gpus()
        assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        original.available_gpus()
