"""Fills a history that the released tool has created with rows of generated GPUs, users and processes.

Arguments: the file, a seed, the age of the last tick in seconds, and the current time in seconds since 1970."""

import datetime
import random
import sqlite3
import sys

path, seed, last, now = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
dice = random.Random(seed)
db = sqlite3.connect(path)
for table in ("gpu_sample", "proc_sample", "gpu_device", "daemon_run"):
    db.execute(f"DELETE FROM {table}")
end = datetime.datetime.fromtimestamp(now, datetime.timezone.utc) - datetime.timedelta(seconds=last)
start = end - datetime.timedelta(hours=50)
db.execute("INSERT INTO daemon_run(id, started_at, interval_seconds) VALUES (1, ?, 30.0)", (start.isoformat(),))
db.execute("INSERT INTO daemon_run(id, started_at, interval_seconds) VALUES (2, ?, 60.0)", (end.isoformat(),))

cards = [(f"GPU-{dice.getrandbits(32):08x}-1111-2222-3333-00000000000{n}", n) for n in range(5)]
cards.append((f"GPU-{dice.getrandbits(32):08x}-1111-2222-3333-000000000009", None))
people = [("ada", None), ("grace", "grace"), (None, "service"), (None, None), ("김민수", None)]
names = ["python", "jupyter-lab", None, "trainer"]
for uuid, _ in cards:
    db.execute(
        "INSERT INTO gpu_device VALUES (?, 'NVIDIA RTX A6000', 49140, ?, ?)", (uuid, start.isoformat(), end.isoformat())
    )


class Job:
    def __init__(self, at):
        self.pid = dice.randrange(1000, 60000)
        self.login, self.owner = dice.choice(people)
        self.name = dice.choice(names)
        self.until = at + datetime.timedelta(minutes=dice.choice([3, 20, 90, 400, 900]))
        self.busy = dice.random() < 0.5
        self.memory = dice.choice([None, 40, 101, 5000, 31000])


jobs = {uuid: [] for uuid, _ in cards}
at = start
while at <= end:
    run = 1 if at < start + datetime.timedelta(hours=20) else 2
    ts = at.isoformat()
    for uuid, index in cards:
        jobs[uuid] = [job for job in jobs[uuid] if job.until > at]
        if len(jobs[uuid]) < 2 and dice.random() < 0.01:
            jobs[uuid].append(Job(at))
        busy = any(job.busy for job in jobs[uuid])
        util = dice.choice([35, 99, 10]) if busy else dice.choice([0, 2, 9])
        used = sum(job.memory or 0 for job in jobs[uuid])
        db.execute(
            "INSERT INTO gpu_sample(ts, gpu_uuid, util_pct, run_id, gpu_index, memory_used_mb) VALUES (?, ?, ?, ?, ?, ?)",
            (ts, uuid, util, run, index, used),
        )
        for job in jobs[uuid]:
            db.execute(
                "INSERT INTO proc_sample(ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, run_id, gpu_index,"
                " process_name, process_type) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'compute')",
                (ts, uuid, job.pid, job.memory, job.login, job.owner, run, index, job.name),
            )
        if index == 2:
            db.execute(
                "INSERT INTO proc_sample(ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, run_id, gpu_index,"
                " process_name, process_type) VALUES (?, ?, 1200, 128, NULL, 'gdm', ?, ?, 'Xorg', 'graphics')",
                (ts, uuid, run, index),
            )
    at += datetime.timedelta(seconds=60)
    if dice.random() < 0.002:
        at += datetime.timedelta(minutes=10)
db.commit()
