"""The original module that ours replaces, loaded alone because its siblings need numerical packages."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any


def _load() -> Any:
    place = Path(sysconfig.get_paths()["purelib"]) / "pytyche/diagnostics/run_monitor.py"
    spec = importlib.util.spec_from_file_location("run_monitor", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_monitor"] = module
    spec.loader.exec_module(module)
    return module


run_monitor = _load()
