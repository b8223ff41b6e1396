"""What tests of ``ferry run`` start as ferryd: it answers as ferryd does, and serves nothing.

A file ``behaviour`` beside it changes one answer. It appends the requests it gets to ``requests``, and
the processes that serve to ``processes``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

HERE = Path(sys.argv[0]).resolve().parent
LIFETIME_S = 60  # whatever becomes of the test


def answer(**members: object) -> None:
    print(json.dumps(members), flush=True)


def fail(error: str) -> NoReturn:
    answer(error=error)
    sys.exit(1)


def append(name: str, line: str) -> None:
    with open(HERE / name, "a") as file:
        file.write(f"{line}\n")


def behaviour() -> str:
    path = HERE / "behaviour"
    return path.read_text() if path.exists() else ""


def connected(path: str) -> socket.socket | None:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
    except OSError:
        return None
    return client


def serve(path: str, cache_bytes: int) -> None:
    append("processes", str(os.getpid()))
    if behaviour() == "never ready":
        signal.pause()
    if behaviour() == "crashes":
        sys.exit("ferryd: something is wrong inside")
    if behaviour() == "refuses":
        fail("no room for the cache")
    if behaviour() == "has the socket" or connected(path):
        fail(f"another ferryd serves {path}")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    answer(ready=True, pid=os.getpid())
    while True:
        client = server.accept()[0]
        asked = client.recv(100)
        if not asked:  # whoever only looked whether somebody listens
            client.close()
            continue
        counters = {"clients": 1, "files": 2, "cached_bytes": 4096, "hits": 5, "fills": 6, "breaks": 7}
        facts = {"pid": os.getpid(), **counters, "cache_bytes": cache_bytes, "version": "0.1.0"}
        client.sendall(json.dumps(facts).encode())
        client.close()
        if asked == b"stop":
            os.unlink(path)
            return


def main() -> None:
    signal.alarm(LIFETIME_S)
    request = json.loads(sys.argv[1])
    append("requests", sys.argv[1])
    path = request["socket"]
    if request["action"] == "serve":
        serve(path, request["cache_bytes"])
        return
    if behaviour() == "another version":
        fail(f"the ferryd at {path} is of another version of Ferry: 9.9.9")
    count = (HERE / "requests").read_text().count("\n")
    client = None if behaviour() == "started by another" and count == 1 else connected(path)
    if client is None:
        fail(f"no ferryd serves {path}")
    client.sendall(request["action"].encode())
    facts = json.loads(client.recv(1 << 16))
    answer(**(facts if request["action"] == "status" else {"stopped": True}))


if __name__ == "__main__":
    main()
