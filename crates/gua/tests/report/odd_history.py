"""Writes a history in the schema of gpu-usage-audit 1.1 with everything that makes counting hard: several runs with their
own intervals, rows without a run, two collectors at once, unknown users, users with several processes, and a GPU that is
missing for a while. Every run writes the same rows except for the time: the last tick is just before the current time, the
second argument in seconds since 1970."""

import datetime
import random
import sqlite3
import sys

TABLES = """
CREATE TABLE host (hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE TABLE daemon_run (id INTEGER PRIMARY KEY AUTOINCREMENT, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL);
CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL,
    run_id INTEGER REFERENCES daemon_run(id), gpu_index INTEGER, memory_used_mb INTEGER, temperature_c INTEGER, power_w INTEGER);
CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER NOT NULL,
    loginuid_user TEXT, run_id INTEGER REFERENCES daemon_run(id), gpu_index INTEGER, process_name TEXT);
CREATE TABLE gpu_device (gpu_uuid TEXT NOT NULL, name TEXT NOT NULL, memory_total_mb INTEGER NOT NULL,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
CREATE INDEX idx_gpu_sample_uuid_ts ON gpu_sample(gpu_uuid, ts);
CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
"""
USERS = ["ada", "bob", "cleo", "dai", "eve", "fay", "gus", "hal", "ivy", "jo", "kim", "lou", None]


def main(path, now):
    dice = random.Random(7)
    base = sqlite3.connect(path)
    base.executescript(TABLES)
    now = datetime.datetime.fromtimestamp(int(float(now)), datetime.timezone.utc)
    base.execute("INSERT INTO host VALUES ('node1', 'bare', '550.54.15', ?, ?)", (now.isoformat(), now.isoformat()))
    for interval in (30.0, 10.0, 2.5):
        base.execute("INSERT INTO daemon_run (started_at, interval_seconds) VALUES (?, ?)", (now.isoformat(), interval))
    # Nothing lies near the edge of the last hour, so that it does not matter which tool is quicker.
    moments = [offset for offset in range(200000, 0, -97) if not 3400 < offset < 3800]
    for offset in moments:
        at = now - datetime.timedelta(seconds=offset)
        if dice.random() < 0.5:
            at += datetime.timedelta(microseconds=dice.randrange(1, 999999))
        runs = [dice.choice([1, 2, 3, None])]
        if dice.random() < 0.1:
            runs.append(dice.choice([run for run in (1, 2, 3) if run not in runs]))
        for run in runs:
            for card in range(4):
                if card == 3 and offset > 90000:
                    continue
                uuid = f"GPU-{card}a"
                util = dice.choice([0, 0, 3, 9, 10, 11, 50, 100])
                row = (at.isoformat(), uuid, util, run, card, 1000, 50, 100)
                base.execute("INSERT INTO gpu_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                for _ in range(dice.choice([0, 1, 1, 2, 3])):
                    row = (at.isoformat(), uuid, dice.randrange(1, 50), dice.choice([0, 40, 60, 100, 101, 8000]),
                           dice.choice(USERS), run, card, "python")
                    base.execute("INSERT INTO proc_sample VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    base.commit()


main(*sys.argv[1:])
