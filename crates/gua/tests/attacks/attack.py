"""Attacks of an unprivileged user on root's daemon. Each prints what it achieved, which must be nothing.

usage: attack.py NAME HISTORY SOCKET CLAIMS PID
"""

import fcntl
import json
import os
import secrets
import signal
import socket
import sqlite3
import stat
import struct
import sys
import time

NAME, HISTORY, SOCKET, CLAIMS, DAEMON = sys.argv[1:6]
DIRECTORY = os.path.dirname(HISTORY)


def refused(what, action):
    """Runs an action that the kernel must refuse."""
    try:
        action()
    except PermissionError:
        return
    except OSError as error:
        print(f"{what}: not refused, but failed: {error}")
        return
    print(f"{what}: succeeded")


def read_the_files():
    for suffix in ["", "-wal", "-shm", "-lock"]:
        refused("read " + suffix, lambda: open(HISTORY + suffix, "rb"))
    refused("read the salt", lambda: open(os.path.join(DIRECTORY, "pseudonyms.salt"), "rb"))
    refused("list the directory", lambda: os.listdir(DIRECTORY))


def lock_the_shared_memory():
    def lock():
        with open(HISTORY + "-shm", "rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)

    refused("lock byte 120", lock)


def hold_a_read_transaction():
    try:
        history = sqlite3.connect(f"file:{HISTORY}?mode=ro", uri=True)
        history.execute("BEGIN")
        history.execute("SELECT count(*) FROM tick").fetchall()
    except sqlite3.OperationalError:
        return
    print("opened the history")
    time.sleep(1)


def move_the_history():
    refused("move", lambda: os.rename(HISTORY, "/tmp/" + secrets.token_hex(8)))
    refused("move the directory", lambda: os.rename(DIRECTORY, DIRECTORY + ".moved"))


def delete_the_history():
    for suffix in ["", "-wal", "-shm", "-lock"]:
        refused("delete " + suffix, lambda: os.unlink(HISTORY + suffix))


def truncate_the_history():
    for suffix in ["", "-wal", "-shm"]:
        refused("truncate " + suffix, lambda: os.truncate(HISTORY + suffix, 0))


def link_to_the_history():
    refused("hard link", lambda: os.link(HISTORY, own_directory("link") + "/gua.db"))


def plant_files_beside_the_history():
    refused("a journal", lambda: open(HISTORY + "-journal", "wb"))
    refused("a link", lambda: os.symlink("/etc/passwd", HISTORY + ".new"))
    refused("a pipe", lambda: os.mkfifo(os.path.join(DIRECTORY, "gua.log")))


def replace_the_socket():
    refused("delete the socket", lambda: os.unlink(SOCKET))
    refused("rename the socket", lambda: os.rename(SOCKET, SOCKET + ".old"))
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(SOCKET)
    except OSError:
        return
    print("bound the socket")


def signal_the_daemon():
    for number in [signal.SIGSTOP, signal.SIGKILL, signal.SIGHUP]:
        refused(f"signal {number}", lambda: os.kill(int(DAEMON), number))
    refused("read its memory", lambda: open(f"/proc/{DAEMON}/mem", "rb"))
    refused("its files", lambda: os.listdir(f"/proc/{DAEMON}/fd"))


def ask_as_root():
    client = socket.socket(socket.AF_UNIX)
    client.connect(SOCKET)
    credentials = struct.pack("iII", os.getpid(), 0, 0)
    message = [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)]
    refused("credentials of root", lambda: client.sendmsg([b"x"], message))


def occupy_the_socket():
    clients = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for client in clients:
        client.settimeout(1)
        try:
            client.connect(SOCKET)
            client.send(b"\x03")
        except OSError:
            # The queue of the socket is full, or the reader has ended the connection.
            pass
    time.sleep(1)


def send_garbage():
    for size in [1, 8, 4096]:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(10)
        try:
            client.connect(SOCKET)
            client.sendall(secrets.token_bytes(size))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass


def own_directory(name):
    """A directory of the attacker among those of the claims."""
    path = os.path.join(CLAIMS, f"gua-claims-{name}{os.getuid()}{secrets.token_hex(4)}")
    os.mkdir(path, 0o755)
    return path


def plant_links_and_fifos_in_the_claims():
    path = own_directory("")
    for number, kind in enumerate(["claim", "wait", "event"]):
        name = f"{path}/{kind}-000000000000000{number}"
        os.symlink(HISTORY, name + "1")
        os.mkfifo(name + "2")
        os.mkdir(name + "3")
        server = socket.socket(socket.AF_UNIX)
        server.bind(name + "4")
        with open(name + "5", "wb") as file:
            file.truncate(1 << 40)
    os.symlink(DIRECTORY, os.path.join(CLAIMS, f"gua-claims-{secrets.token_hex(8)}"))
    os.mkfifo(os.path.join(CLAIMS, f"gua-claims-{secrets.token_hex(8)}"))


def forge_tickets_and_claims():
    path = own_directory("")
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    with open("/proc/1/stat") as file:
        start = int(file.read().rsplit(") ", 1)[1].split()[19])
    waiter = {"boot": boot, "pid": 1, "start": start}
    ticket = {"version": 1, "wanted": 1, "arrived_us": 1, "asked_us": 1, "acceptable": ["GPU-a"], "waiter": waiter}
    with open(path + "/wait-00000000", "w") as file:
        json.dump(ticket, file)


def fill_the_claims():
    for _ in range(4):
        path = own_directory("")
        for number in range(500):
            with open(f"{path}/event-{number:016x}-{number:08x}", "wb") as file:
                file.write(b'{"version":1,' + b"x" * 4000)


def fill_the_history_with_runs():
    """Hands over runs that claim to be of many days, each of which has a limit of its own if it is trusted."""
    path = own_directory("")
    for number in range(200):
        started = f"{2000 + number % 30}-01-{number % 28 + 1:02d}T00:00:00Z"
        run = {"id": secrets.token_hex(8), "name": "x", "started": started, "ended": started, "exit_code": 0, "gpus": [], "summary": {"x": "y" * 3000}}
        with open(f"{path}/event-{number:016x}-{secrets.token_hex(4)}", "w") as file:
            json.dump({"version": 1, "kind": "run", "body": run}, file)


def hold_the_lock_of_the_claims():
    directory = os.open(CLAIMS, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_SH)
    time.sleep(1)


def forge_a_login_uid():
    """Where it is not set, a process may set it. What it charges is checked by a test of its own."""
    try:
        with open("/proc/self/loginuid", "w") as file:
            file.write("0")
    except OSError:
        pass
    time.sleep(0.5)


globals()[NAME]()
assert not stat.S_ISLNK(os.lstat(CLAIMS).st_mode)
