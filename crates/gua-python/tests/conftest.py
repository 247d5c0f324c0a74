"""A test machine: a simulated driver, a home without settings, and an nvidia-smi for the originals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

#: Directory of the programs that cargo built, set by scripts/test-python.
BUILT = Path(os.environ["GUA_BUILT"])

#: The driver looks at its scenario this often at the most (`LOOK_EVERY` of nvml-sim), and a file system's clock is coarse.
NOTICED = 0.2


@dataclass
class Gpu:
    """A GPU of a scenario."""

    util: int = 0
    memory_util: int = 0
    used: int = 0
    total: int = 40960
    power: float = 50.0
    name: str = "NVIDIA A100"
    #: Further scenario lines for this GPU, such as processes.
    more: str = ""

    def scenario(self, number: int) -> str:
        return textwrap.dedent(
            f"""
            [[gpu]]
            name = "{self.name}"
            uuid = "GPU-1ab00000-0000-4000-8000-00000000000{number}"
            util = {self.util}
            memory_util = {self.memory_util}
            memory_used_mib = {self.used}
            memory_total_mib = {self.total}
            power_w = {self.power}
            """
        ) + textwrap.dedent(self.more)


@dataclass
class Machine:
    """The parts that a test may change."""

    home: Path
    library: Path
    gpus: list[Gpu] = field(default_factory=list)

    @property
    def scenario(self) -> Path:
        return self.library.parent / "nvml-sim.toml"

    def play(self, *gpus: Gpu, more: str = "") -> None:
        """Changes the GPUs of a running driver, which has noticed when this returns."""
        self.gpus = list(gpus)
        fresh = self.scenario.with_suffix(".new")
        fresh.write_text("".join(gpu.scenario(number) for number, gpu in enumerate(gpus)) + more)
        fresh.rename(self.scenario)
        time.sleep(NOTICED)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with one GPU."""
    driver = tmp_path / "driver"
    driver.mkdir()
    subprocess.run([BUILT / "nvml-sim", "install", driver], check=True, stdout=subprocess.DEVNULL)
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GUA_", "CUDA_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GUA_CLAIM_DIR", str(tmp_path / "claims"))
    monkeypatch.setenv("GUA_NVML_LIBRARY", str(driver / "libnvidia-ml.so.1"))
    monkeypatch.setenv("GUA_DRIVER_PIDS", "here")
    monkeypatch.setenv("GUA_TEST_SYSTEM_CONFIG", str(home / "system.toml"))
    machine = Machine(home, driver / "libnvidia-ml.so.1")
    machine.play(Gpu())
    return machine


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Waits until a condition holds; a minute means never."""

    def wait(is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.01)

    return wait


#: Prints what nvidia-smi would for the GPUs in its own directory, for programs that run nvidia-smi.
NVIDIA_SMI = r"""#!{python}
import datetime, json, pathlib, sys, time
gpus = json.loads((pathlib.Path(__file__).parent / "gpus.json").read_text())
words = sys.argv[1:]
if "-L" in words:
    for number, gpu in enumerate(gpus):
        print(f"GPU {{number}}: {{gpu['name']}} (UUID: GPU-1ab00000-0000-4000-8000-00000000000{{number}})")
elif "dmon" in words:
    while True:
        print("# gpu     fb   bar1   ccpm     sm    mem\n# Idx     MB     MB     MB      %      %")
        for number, gpu in enumerate(gpus):
            print(f"{{number:5}} {{gpu['used']:6}}      3      0 {{gpu['util']:6}} {{gpu['memory_util']:6}}", flush=True)
        time.sleep(float(words[words.index("-d") + 1]))
elif words and words[0].startswith("--query-gpu"):
    while True:
        now = datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        for gpu in gpus:
            numbers = (gpu["util"], gpu["memory_util"], gpu["used"], gpu["total"], f"{{gpu['power']:.2f}}", 41, 1410, 1215)
            print(now, *numbers, sep=", ", flush=True)
        time.sleep(float(words[words.index("-l") + 1]))
else:
    print("today\n+---+\n| NVIDIA-SMI 550.54  Driver Version: 550.54  CUDA Version: 12.4     |\n" + "|\n" * 5, end="")
    for gpu in gpus:
        print(f"| name |\n| 30C P0 50W / 400W | {{gpu['used']}}MiB / {{gpu['total']}}MiB | 0% |\n| |\n+--+")
"""


@pytest.fixture
def nvidia_smi(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts an nvidia-smi on the PATH that prints the machine's GPUs at the time of the call."""
    folder = tmp_path / "smi"

    def install() -> None:
        folder.mkdir(exist_ok=True)
        (folder / "gpus.json").write_text(json.dumps([asdict(gpu) for gpu in machine.gpus]))
        program = folder / "nvidia-smi"
        program.write_text(NVIDIA_SMI.format(python=sys.executable))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return install
