"""What `gua run` costs; called by scripts/bench-run with the directory of the built programs."""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PAIRS = 300

# Limits: milliseconds, percent of a CPU at 2 s, megabytes after a day of samples.
ADDED_MS, PROCESSOR_PCT, MEMORY_MB = 15, 0.2, 10
broken = []


def environment(target, home):
    """A home directory with a simulated driver of eight GPUs."""
    scenario = "".join(f'[[gpu]]\nuuid = "GPU-{n}"\nutil = 60\n' for n in range(8))
    subprocess.run([target / "nvml-sim", "install", home], check=True, stdout=subprocess.DEVNULL)
    (home / "nvml-sim.toml").write_text(scenario)
    (home / "claims").mkdir()
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "GUA_NVML_LIBRARY": str(home / "libnvidia-ml.so.1"),
        "GUA_CLAIM_DIR": str(home / "claims"),
    }


def took(command, env):
    began = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def added(gua, env):
    """Milliseconds that `gua run` adds to a command that does nothing, for each pair."""
    pairs = [took([gua, "run", "--", "true"], env) - took(["true"], env) for _ in range(PAIRS)]
    pairs.sort()
    print(f"gua run -- true adds {statistics.median(pairs):.1f} ms (median of {PAIRS} pairs; "
          f"nine of ten below {pairs[PAIRS * 9 // 10]:.1f} ms)")
    if statistics.median(pairs) >= ADDED_MS:
        broken.append(f"{ADDED_MS} ms is the most that it may add")


def nanoseconds(pid):
    """CPU time from the scheduler's accounting, which is finer than clock ticks."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


def reader_of(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "gua-reader":
                return int(child)
    return None


def watched(gua, env, interval, samples, name):
    """Watches `sleep` for this many samples and prints the cost."""
    out = pathlib.Path(env["HOME"]) / name
    job = subprocess.Popen([gua, "run", "--quiet", "--gpus", "all", "--interval", interval, "--out", out,
                            "--", "sleep", "100000"], env=env)
    log = out / "run.jsonl"
    try:
        while not log.exists() or log.read_bytes().count(b'"sample"') < 2:
            time.sleep(0.05)
        reader = reader_of(job.pid)
        first, began = nanoseconds(job.pid) + nanoseconds(reader), time.monotonic()
        seen = log.read_bytes().count(b'"sample"')
        size = log.stat().st_size
        while seen < samples:
            time.sleep(0.5)
            with log.open("rb") as lines:
                lines.seek(size)
                new = lines.read()
            seen += new.count(b'"sample"')
            size += len(new)
        used = nanoseconds(job.pid) + nanoseconds(reader) - first
        wall = time.monotonic() - began
        print(f"{seen} samples of 8 GPUs, {interval} apart: {100 * used / wall:.3f} % of a CPU with the reader, "
              f"{1000 * used / seen:.2f} ms a sample; memory {memory(job.pid, 'VmRSS'):.1f} MB "
              f"(at most {memory(job.pid, 'VmHWM'):.1f} MB), reader {memory(reader, 'VmRSS'):.1f} MB")
        if interval == "2s" and 100 * used / wall >= PROCESSOR_PCT:
            broken.append(f"{PROCESSOR_PCT} % of a processor is the most at 2 s")
        if memory(job.pid, "VmHWM") >= MEMORY_MB:
            broken.append(f"{MEMORY_MB} MB is the most")
    finally:
        # Forwarded to the job, whose end also ends `gua run`.
        job.terminate()
        job.wait()


def main():
    target = pathlib.Path(sys.argv[1])
    gua = target / "gua"
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        env = environment(target, home)
        added(gua, env)
        watched(gua, env, "2s", 30, "minute")
        if "--short" not in sys.argv:
            watched(gua, env, "10ms", 43200, "day")
    if broken:
        sys.exit("over the limit: " + "; ".join(broken))


main()
