"""What memory programs can still have, in control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.machine_memory import available_bytes

MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", "MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_group(folder: Path, limit: str, used: int, inactive: int) -> None:
    write(folder / "memory.max", f"{limit}\n")
    write(folder / "memory.current", f"{used}\n")
    write(folder / "memory.stat", f"anon 1\nfile 2\ninactive_file {inactive}\nactive_file 3\n")


def test_a_machine_without_control_groups(root: Path) -> None:
    assert available_bytes(root) == 8192000 << 10


def test_this_machine() -> None:
    assert 0 < available_bytes() < 1 << 50


def test_the_group_and_those_around_it(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/job/step\n")
    group = root / "sys/fs/cgroup/job"
    make_group(group / "step", "max", 5 * MIB, 0)
    make_group(group, str(100 * MIB), 60 * MIB, 10 * MIB)
    assert available_bytes(root) == 50 * MIB
    make_group(group / "step", str(30 * MIB), 5 * MIB, 4 * MIB)
    assert available_bytes(root) == 29 * MIB
    make_group(group / "step", str(30 * MIB), 35 * MIB, 0)
    assert available_bytes(root) == 0


def test_a_container_that_sees_only_its_own_group(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/\n")
    make_group(root / "sys/fs/cgroup", str(100 * MIB), 60 * MIB, 0)
    assert available_bytes(root) == 40 * MIB


def test_version_1(root: Path) -> None:
    write(root / "proc/self/cgroup", "12:cpu,cpuacct:/other\n4:memory:/job\n0::/\n")
    group = root / "sys/fs/cgroup/memory/job"
    write(group / "memory.limit_in_bytes", f"{100 * MIB}\n")
    write(group / "memory.usage_in_bytes", f"{80 * MIB}\n")
    write(group / "memory.stat", f"cache 7\ntotal_inactive_file {30 * MIB}\n")
    assert available_bytes(root) == 50 * MIB
    write(group / "memory.limit_in_bytes", f"{(1 << 63) - 4096}\n")
    assert available_bytes(root) == 8192000 << 10


def test_no_linux(root: Path) -> None:
    write(root / "proc/meminfo", "MemTotal: 1 kB\n")
    with pytest.raises(FerryError, match="how much memory"):
        available_bytes(root)
