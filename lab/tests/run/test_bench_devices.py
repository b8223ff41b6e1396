"""``ferry bench`` on raw block devices: reads change nothing, writes must be asked for twice."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can attach a loop device")
DISK_BYTES = 4 << 20
SMALL = ("-i", "1", "-b", "1m", "-t", "64k")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(os.urandom(DISK_BYTES))
    return path


@pytest.fixture
def disk(image: Path) -> Iterator[str]:
    """A block device of DISK_BYTES."""
    name = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
    yield name
    subprocess.run(["losetup", "-d", name], check=True)


@pytest.mark.parametrize(
    "way",
    [
        *(("-a", interface) for interface in ("posix", "mmap", "uring")),
        *(("--placement", placement) for placement in ("host", "compute", "service", "automatic")),
        ("--direct",),
        ("--threads", "2", "-z", "--cold"),
    ],
)
def test_every_way_reads_a_disk(command: Command, disk: str, image: Path, way: tuple[str, ...]) -> None:
    before = image.read_bytes()
    output = command.succeeds("bench", "-r", *SMALL, *way, disk)
    assert output.startswith(f"{disk}, raw block device, interface ")
    assert "contents verified" in output
    assert image.read_bytes() == before


def test_a_disk_is_read_to_its_end(command: Command, disk: str) -> None:
    for placement in ("host", "compute"):
        output = command.succeeds("bench", "-r", "-i", "1", "-b", "4m", "--placement", placement, disk)
        assert "contents verified" in output
    command.fails("bench", "-r", "-b", "8m", disk, says=f"{disk} has 4 MiB, and -b 8 MiB needs 8 MiB")


def test_the_result_names_the_device(command: Command, disk: str) -> None:
    result = command.json("bench", "-r", *SMALL, disk)
    (system,) = result["environment"]["file_systems"]
    assert (system["type"], system["source"]) == ("raw block device", disk)
    assert system["block_device"]["name"] == Path(disk).name
    assert system["block_device"]["size_bytes"] == DISK_BYTES


@pytest.mark.parametrize("given", [("-w",), (), ("-w", "--overwrite"), ("-w", "--wipe-device")])
def test_writing_must_be_asked_for_twice(command: Command, disk: str, image: Path, given: tuple[str, ...]) -> None:
    before = image.read_bytes()
    command.fails("bench", *SMALL, *given, disk, says="needs both --overwrite and --wipe-device")
    assert image.read_bytes() == before


@pytest.mark.parametrize("way", [("-a", "posix"), ("-a", "mmap"), ("-a", "uring"), ("--placement", "compute")])
def test_a_disk_is_written_and_stays(command: Command, disk: str, image: Path, way: tuple[str, ...]) -> None:
    before = image.read_bytes()
    output = command.succeeds("bench", *SMALL, *way, "--overwrite", "--wipe-device", "-e", disk)
    assert output.count("contents verified") == 2
    assert Path(disk).is_block_device()
    os.sync()
    after = image.read_bytes()
    assert after[: 1 << 20] != before[: 1 << 20]
    assert after[1 << 20 :] == before[1 << 20 :]


def test_a_disk_that_is_in_use_is_not_written(command: Command, disk: str, image: Path) -> None:
    before = image.read_bytes()
    holder = os.open(disk, os.O_RDONLY | os.O_EXCL)  # as mount(2) takes it
    try:
        says = f"{disk} is in use"
        command.fails("bench", "-w", *SMALL, "--overwrite", "--wipe-device", disk, says=says)
        command.succeeds("bench", "-r", *SMALL, disk)
    finally:
        os.close(holder)
    assert image.read_bytes() == before


@pytest.mark.parametrize(("flag", "given"), [("-F", ("-r", "-F")), ("--mix", ("--mix", "50"))])
def test_what_makes_files_is_refused(command: Command, disk: str, flag: str, given: tuple[str, ...]) -> None:
    command.fails("bench", *SMALL, *given, disk, says=f"{disk} is a block device, and {flag} makes files")


def test_a_device_that_is_not_there_is_no_new_file(command: Command) -> None:
    command.fails("bench", "-w", *SMALL, "/dev/no-such-disk", says="/dev is for devices, not for files")
    assert not Path("/dev/no-such-disk").exists()


def test_a_device_that_does_not_answer(command: Command, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    try:
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(4095, 0))  # no driver has this number
        os.close(os.open(disk, os.O_RDONLY))
    except PermissionError:
        pytest.skip("devices cannot be made or opened here")
    except OSError as error:
        assert error.errno == errno.ENXIO
    command.fails(
        "bench", "-r", *SMALL, disk, says=": No such device or address; see that it is there and has a medium"
    )


def test_a_file_is_not_wiped(command: Command, tmp_path: Path) -> None:
    command.fails("bench", "-w", "--wipe-device", tmp_path / "file", says="--wipe-device is for block devices")


def test_info_says_what_a_disk_is(command: Command, disk: str) -> None:
    output = command.succeeds("info", disk)
    assert f"{disk} (block device, 4 MiB)" in output
    assert "none: this is the device itself" in output
