"""The network of the rig ``ceph`` with a rate limit: what it creates and removes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT, run_program

pytestmark = pytest.mark.skipif(
    not os.environ.get("FERRY_TEST_RIG"), reason="absent: rigs are not to be started; ./test --stage storages does"
)
MBPS = 400
OSDS = 4


class Rig:
    """Rigs of a separate checkout, beside those already running."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(ROOT / "rigs", folder / "rigs")
        self.folder = folder
        self.state = folder / ".ferry" / "rig" / "ceph"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        # The rig gives a cluster two minutes to come up, and says then that it did not.
        return run_program(self.folder / "rigs" / "rig", *words, timeout=300)

    def process(self, name: str) -> int:
        return int((self.state / f"{name}.process").read_text().split()[0])

    def links(self) -> set[str]:
        number = (self.state / "network").read_text().split()[0]
        return {name for name in links() if name.split("-")[:2] == ["ferry", number]}


def links() -> set[str]:
    """The network devices of this machine."""
    done = run_program("ip", "-json", "link", check=True)
    return {link["ifname"] for link in json.loads(done.stdout)}


def namespace(process: int) -> str:
    """A process's network namespace."""
    return os.readlink(f"/proc/{process}/ns/net")


def is_running(process: int) -> bool:
    """Whether it exists, and not only as a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def limits(*before: str) -> list[str]:
    """The queueing disciplines of the machine, or where the command `before` leads."""
    done = run_program(*before, "tc", "qdisc", check=True)
    return [line for line in done.stdout.splitlines() if " tbf " in line]


@pytest.fixture(name="rig")
def _rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.run("down", "ceph")


def test_what_the_network_is_made_of_and_that_it_goes(rig: Rig) -> None:
    before = links()
    up = rig.run("up", "ceph", "--osd-mbps", str(MBPS))
    assert up.returncode == 0, up.stderr
    made = rig.links()
    assert len(made) == 1 + OSDS
    processes = [rig.process(f"osd.{number}") for number in range(OSDS)]
    apart = {namespace(process) for process in processes}
    assert len(apart) == OSDS
    assert namespace(os.getpid()) not in apart
    assert namespace(rig.process("mon")) == namespace(os.getpid())
    # Both directions of each link.
    assert sum(f"rate {MBPS}Mbit" in line for line in limits() if line.split()[4] in made) == OSDS
    for process in processes:
        inside = limits("nsenter", "-t", str(process), "-n")
        assert len(inside) == 1
        assert f"rate {MBPS}Mbit" in inside[0]

    again = rig.run("up", "ceph", "--osd-mbps", str(MBPS))
    assert (again.returncode, again.stdout) == (0, up.stdout)
    assert rig.links() == made
    other = rig.run("up", "ceph", "--osd-mbps", str(MBPS + 1))
    assert other.returncode == 1
    assert "with another rate" in other.stderr
    assert rig.run("status").stdout.splitlines()[1].split()[:2] == ["ceph", "up"]

    # The namespace of one that is killed ends with it, and its link with that.
    os.kill(processes[0], signal.SIGKILL)
    until = time.monotonic() + 30
    while len(rig.links()) > OSDS and time.monotonic() < until:
        time.sleep(0.05)
    assert len(rig.links()) == OSDS
    down = rig.run("down", "ceph")
    assert down.returncode == 0, down.stderr
    assert not made & links()
    assert made.isdisjoint(before)
    assert not (rig.folder / ".ferry" / "rig").exists()
    for process in processes:
        assert not is_running(process)
    assert rig.run("down", "ceph").returncode == 0


def test_killed_osds_come_back_with_their_links_and_files(rig: Rig) -> None:
    up = rig.run("up", "ceph", "--disk", "--osd-mbps", str(MBPS))
    assert up.returncode == 0, up.stderr
    made = rig.links()
    assert rig.run("kill", "ceph").returncode == 0
    again = rig.run("up", "ceph")
    assert (again.returncode, again.stdout) == (0, up.stdout), again.stderr
    assert rig.links() == made


@pytest.mark.parametrize("rate", ["0", "x", "-1", "1000000", ""])
def test_a_rate_that_is_none_is_refused(rig: Rig, rate: str) -> None:
    done = rig.run("up", "ceph", "--osd-mbps", rate)
    assert done.returncode == 2
    assert "takes Mbit/s from 1 to 999999" in done.stderr
    assert done.stderr.count("\n") == 1
