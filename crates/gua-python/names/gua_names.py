"""The commands nvgpu, nvl and gpu-usage-audit: the program gua under these names."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import NoReturn


def _run(name: str) -> NoReturn:
    program = shutil.which("gua", path=sysconfig.get_path("scripts")) or shutil.which("gua")
    if program is None:
        sys.exit(f"{name}: the program gua was not found; install the package gua")
    # gua chooses its command line by the name under which it is started.
    os.execv(program, [name, *sys.argv[1:]])


def nvgpu() -> NoReturn:
    _run("nvgpu")


def nvl() -> NoReturn:
    _run("nvl")


def gpu_usage_audit() -> NoReturn:
    _run("gpu-usage-audit")
