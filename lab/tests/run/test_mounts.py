"""Private mounts, which disappear afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ferry_lab.run import mounts
from processes import wait_until
from support import SOURCES, run_python

MOUNTS = Path("/proc/self/mounts")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")

# Entering the namespace is permanent, so another process does it.
PROGRAM = """
import os, sys, time
from pathlib import Path
from ferry_lab.run import mounts
from ferry.errors import FerryError
folder = Path(sys.argv[1])
with mounts.own_mounts() as own:
    {body}
print("left", open("/proc/self/mounts").read().count(str(folder)))
"""


def program(body: str) -> str:
    return PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    ").strip())


def run(body: str, folder: Path) -> str:
    done = run_python(program(body), folder, PYTHONPATH=SOURCES)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loops_of(folder: Path) -> list[str]:
    """Images under ``folder`` attached to loop devices.

    In a chroot the kernel prefixes paths with that of the root directory.
    """
    names = [p.read_text().strip() for p in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [name[name.index(str(folder)) :] for name in names if str(folder) in name]


@needs_root
def test_memory_file_systems_forget_with_a_restart(tmp_path: Path) -> None:
    output = run(
        """
        for kind in ("tmpfs", "ramfs"):
            mounted = own.memory(kind, folder / kind, 1 << 20)
            line = next(l for l in open("/proc/self/mounts") if str(mounted.folder) in l)
            print(line.split()[2], mounted.setup_s > 0, mounted.steps)
            print("survived", own.remount(mounted), os.statvfs(mounted.folder).f_blocks)
        """,
        tmp_path,
    ).splitlines()
    assert output == [
        "tmpfs True ('mount -t tmpfs -o size=1048576 tmpfs tmpfs',)",
        "survived False 256",
        "ramfs True ('mount -t ramfs ramfs ramfs',)",
        "survived False 0",
        "left 0",
    ]
    assert str(tmp_path) not in MOUNTS.read_text(), "nobody else saw them"


@needs_root
def test_a_file_system_on_a_loop_device(tmp_path: Path) -> None:
    if mounts.why_no_loop("ext4"):
        pytest.fail(f"every Debian has ext4: {mounts.why_no_loop('ext4')}")
    output = run(
        """
        mounted = own.loop("ext4", folder / "ext4", folder / "image", 64 << 20)
        (mounted.folder / "file").write_bytes(bytes(1000))
        line = next(l for l in open("/proc/self/mounts") if str(mounted.folder) in l)
        name = line.split()[0].removeprefix("/dev/")
        print(line.split()[2], open(f"/sys/block/{name}/loop/dio").read().strip())
        """,
        tmp_path,
    )
    assert output.splitlines() == ["ext4 1", "left 0"]
    assert loops_of(tmp_path) == []


@needs_root
def test_a_killed_process_leaves_neither_mounts_nor_loop_devices(tmp_path: Path) -> None:
    body = """
        own.memory("ramfs", folder / "ramfs", 0)
        own.loop("ext4", folder / "ext4", folder / "image", 64 << 20)
        print("ready", flush=True)
        time.sleep(60)
        """
    with subprocess.Popen(
        [sys.executable, "-c", program(body), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert loops_of(tmp_path) == [str(tmp_path / "image")]
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not loops_of(tmp_path))  # the kernel clears the device in the background
    assert str(tmp_path) not in MOUNTS.read_text()


CHROOTED = """
import ctypes, os, sys
from pathlib import Path
from ferry_lab.run import mounts
libc, root = mounts._libc, Path(sys.argv[1])
private, shared = ctypes.c_ulong(0x44000), ctypes.c_ulong(0x104000)  # with MS_REC
if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, private, None) != 0:
    print("absent")
    sys.exit()
libc.mount(b"none", b"/", None, shared, None)
(root / "proc").mkdir()
(root / "in").mkdir()
libc.mount(b"proc", str(root / "proc").encode(), b"proc", ctypes.c_ulong(0), None)
mounted, looked = os.pipe(), os.pipe()
if os.fork() == 0:
    os.chroot(root)
    os.chdir("/in")
    with mounts.own_mounts() as own:
        own.memory("tmpfs", Path("memory"), 1 << 20)
        print("here", Path("/proc/self/mounts").read_text().count(" /in/memory "), flush=True)
        os.write(mounted[1], b"x")
        os.read(looked[0], 1)
    print("left", Path("/proc/self/mounts").read_text().count("memory"), flush=True)
    os._exit(0)
os.close(mounted[1])
os.read(mounted[0], 1)
print("there", Path("/proc/self/mounts").read_text().count("/in/memory"), flush=True)
os.write(looked[1], b"x")
os.wait()
"""


@needs_root
def test_a_root_directory_that_is_no_mount_point(tmp_path: Path) -> None:
    """As after a chroot, on a file system that propagates mounts."""
    done = run_python(CHROOTED, tmp_path, PYTHONPATH=SOURCES)
    if done.stdout == "absent\n":
        pytest.skip("absent: the right to mount, or a mount point at /")
    assert done.stdout.splitlines() == ["here 1", "there 0", "left 0"], done.stderr


@needs_root
def test_what_cannot_be_mounted_is_said(tmp_path: Path) -> None:
    output = run(
        """
        try:
            own.memory("nofs", folder / "nofs", 0)
        except FerryError as error:
            print(error)
        try:
            own.loop("xfs", folder / "xfs", folder / "small", 1 << 20)
        except FerryError as error:
            print(str(error).split()[0])
        """,
        tmp_path,
    ).splitlines()
    assert output == [f"mounting nofs on {tmp_path}/nofs: No such device", "mkfs.xfs", "left 0"]


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts.shutil, "which", lambda *_, **__: None)
    assert mounts.why_no_loop("btrfs") == ("mkfs.btrfs is not installed (Debian package btrfs-progs)")


def test_without_root_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts.os, "geteuid", lambda: 1000)
    with mounts.own_mounts() as own:
        assert own is None
