"""Content of the package, and the interpreters that load it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import gua
import pytest


def interpreters() -> list[Path]:
    """Every CPython from 3.10 on below pyenv's directory: one library serves them all."""
    versions = Path.home() / ".pyenv/versions"
    numbers = [folder for folder in sorted(versions.glob("3.*")) if int(folder.name.split(".")[1]) >= 10]
    return [folder / "bin/python3" for folder in numbers]


@pytest.mark.parametrize("python", interpreters(), ids=lambda python: python.parents[1].name)
def test_one_library_serves_every_interpreter(python: Path, tmp_path: Path) -> None:
    (tmp_path / "gua").symlink_to(Path(sysconfig.get_paths()["purelib"]) / "gua")
    script = "import gua, sys; log = gua.RunLog(); log.log_phase('x', 1.0); print(gua.__version__, len(log))"
    done = subprocess.run(
        [python, "-c", script], env={"PYTHONPATH": str(tmp_path)}, check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == f"{gua.__version__} 1\n"


def test_the_wheel_alone_contains_the_package_and_the_program(tmp_path: Path) -> None:
    def run(*words: str | Path) -> str:
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={"HOME": str(tmp_path)}).stdout

    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", fresh)
    pip = (fresh / "bin/python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", os.environ["GUA_WHEEL"])
    assert run(fresh / "bin/python", "-c", "import gua; print(gua.__version__)") == f"{gua.__version__}\n"
    assert run(fresh / "bin/gua", "--version") == f"{gua.__version__}\n"


def test_the_wheel_of_the_old_names_serves_programs_that_use_them(tmp_path: Path) -> None:
    def run(*words: str | Path) -> str:
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={"HOME": str(tmp_path)}).stdout

    fresh = tmp_path / "fresh"
    run(sys.executable, "-m", "venv", fresh)
    wheel = Path(os.environ["GUA_WHEEL"])
    names = wheel.with_name(f"gua_names-{gua.__version__}-py3-none-any.whl")
    pip = (fresh / "bin/python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", wheel, names)
    script = "import nvgpu; print(nvgpu.available_gpus.__module__, nvgpu.gpu_info.__name__)"
    assert run(fresh / "bin/python", "-c", script) == "gua.nvgpu gpu_info\n"
    for name in ("nvgpu", "nvl", "gpu-usage-audit"):
        assert run(fresh / "bin" / name, "--version") == f"{gua.__version__}\n"
    assert run(fresh / "bin/nvl", "--help").startswith("usage: nvl")


def test_the_package_has_no_dependencies_and_is_typed() -> None:
    assert importlib.metadata.requires("gua") is None
    assert importlib.metadata.version("gua") == gua.__version__
    assert (Path(gua.__file__).parent / "py.typed").exists()


def test_everything_public_exists_and_is_documented() -> None:
    for name in gua.__all__:
        assert getattr(gua, name).__doc__, name
