"""Private file systems that a study mounts for itself.

They are in this process's own mount namespace, and loop devices detach once unused. So they vanish
with the process, however it ends; normally they are unmounted before. Root and Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ferry.errors import FerryError
from ferry.files import signals_ignored

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_LOOP_CONFIGURE, _LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
_AUTOCLEAR, _DIRECT_IO = 4, 16
# struct loop_config: the image's descriptor, block size (0: the kernel's choice), loop_info64
# (flags at byte 52, 232 bytes in all), then 64 reserved bytes.
_LOOP_CONFIG = "II52xI176x64x"
_ATTEMPTS = 20  # another process may take the free loop device

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mounted:
    """A mounted file system and its set-up."""

    kind: str
    folder: Path
    options: str
    image: Path | None  # on a loop device: its image
    steps: tuple[str, ...]  # one command each
    setup_s: float


@dataclass
class Mounts:
    """Mounts in this process's own namespace; see own_mounts()."""

    _folders: list[Path] = field(default_factory=list)

    def memory(self, kind: str, folder: Path, limit_bytes: int) -> Mounted:
        """Mounts a tmpfs with that limit, or a ramfs, which has none, on a new folder."""
        options = f"size={limit_bytes}" if kind == "tmpfs" else ""
        begin = time.monotonic()
        self._mount(kind, kind, folder, options)
        flags = f" -o {options}" if options else ""
        step = f"mount -t {kind}{flags} {kind} {folder.name}"
        return Mounted(kind, folder, options, None, (step,), time.monotonic() - begin)

    def loop(self, kind: str, folder: Path, image: Path, size_bytes: int) -> Mounted:
        """Makes a file system in a new file and mounts it on a new folder through a loop device.

        The loop device uses direct I/O on the file, so only the new file system caches pages.
        Raises FerryError where the kernel or a program cannot.
        """
        begin = time.monotonic()
        with image.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        with _loop_device(image) as device:
            _run(f"mkfs.{kind}", "-q", device)
            self._mount(kind, device, folder, "")
        steps = (
            f"fallocate -l {size_bytes} {image.name}",
            f"mkfs.{kind} {image.name}",
            f"mount -o loop {image.name} {folder.name}",
        )
        return Mounted(kind, folder, "", image, steps, time.monotonic() - begin)

    def remount(self, mounted: Mounted) -> bool:
        """Unmounts and remounts a file system; returns whether a file in it still exists.

        This has the effect of a restart.
        """
        witness = mounted.folder / "witness"
        witness.write_bytes(b"here")
        self._unmount(mounted.folder)
        self._folders.remove(mounted.folder)
        with _loop_device(mounted.image) if mounted.image else contextlib.nullcontext(mounted.kind) as source:
            self._mount(mounted.kind, source, mounted.folder, mounted.options)
        survived = witness.exists()
        witness.unlink(missing_ok=True)
        return survived

    def take_down(self) -> None:
        """Unmounts everything in reverse order. No signal interrupts it."""
        with signals_ignored():
            while self._folders:
                self._unmount(self._folders.pop())

    def _mount(self, kind: str, source: str, folder: Path, options: str) -> None:
        folder.mkdir(exist_ok=True)
        self._folders.append(folder)  # first, so that no interruption comes between
        arguments = (text.encode() for text in (source, str(folder), kind))
        if _libc.mount(*arguments, ctypes.c_ulong(0), options.encode()) != 0:
            number = ctypes.get_errno()
            self._folders.remove(folder)
            raise FerryError(f"mounting {kind} on {folder}: {os.strerror(number)}")

    def _unmount(self, folder: Path) -> None:
        if _libc.umount2(str(folder).encode(), 0) != 0:
            _libc.umount2(str(folder).encode(), _MNT_DETACH)  # detached once nothing is open


@contextlib.contextmanager
def own_mounts() -> Iterator[Mounts | None]:
    """Gives the mounts, or None without permission. Unmounts all at the end."""
    if not _enter_namespace():
        yield None
        return
    mounts = Mounts()
    try:
        yield mounts
    finally:
        mounts.take_down()


def why_no_loop(kind: str) -> str | None:
    """Says why a kind of file system cannot be made on a loop device; None if it can."""
    if shutil.which(f"mkfs.{kind}", path=_programs()) is None:
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[kind]
        return f"mkfs.{kind} is not installed (Debian package {package})"
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    loadable = shutil.which("modprobe", path=_programs()) is not None
    if kind not in known and not loadable:
        return f"the kernel does not know {kind}"
    if not os.path.exists("/dev/loop-control"):
        return "the kernel has no loop devices"
    return None


def _enter_namespace() -> bool:
    """Gives this process a mount namespace that propagates none of its mounts."""
    if os.geteuid() != 0 or _libc.unshare(_CLONE_NEWNS) != 0:
        return False
    return _make_private("/") or (ctypes.get_errno() == errno.EINVAL and _enter_root_of_own())


def _make_private(point: str) -> bool:
    """Stops propagation to other namespaces under a mount point."""
    flags = ctypes.c_ulong(_MS_REC | _MS_PRIVATE)
    return bool(_libc.mount(b"none", point.encode(), None, flags, None) == 0)


def _enter_root_of_own() -> bool:
    """Makes the root directory a mount point of this namespace if it is none (chroot).

    Its file system may propagate mounts to other namespaces, and only a mount point can change
    that. So the root directory is bind-mounted over /proc, whose mount can be private, and entered
    there; it has its own /proc.
    """
    flags = ctypes.c_ulong(_MS_BIND | _MS_REC)
    try:
        folder = os.getcwd()
        if not _make_private("/proc") or _libc.mount(b"/", b"/proc", None, flags, None) != 0:
            return False
        if not _make_private("/proc"):
            return False
        os.chroot("/proc")
        os.chdir(folder)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _loop_device(image: Path) -> Iterator[str]:
    """Yields a loop device for a file; it detaches when neither open nor mounted."""
    device, path = _claim_loop(image)
    try:
        yield path
    finally:
        os.close(device)


def _claim_loop(image: Path) -> tuple[int, str]:
    try:
        file = os.open(image, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise FerryError(f"a loop device of {image}: {error.strerror}") from None
    try:
        for _ in range(_ATTEMPTS):
            path = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            config = struct.pack(_LOOP_CONFIG, file, 0, _AUTOCLEAR | _DIRECT_IO)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, config)
                return device, path
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
        raise FerryError(f"no loop device is free for {image}; detach one (losetup -l)")
    except OSError as error:
        raise FerryError(f"a loop device of {image}: {error.strerror}") from None
    finally:
        os.close(control)
        os.close(file)


def _programs() -> str:
    """Returns the search path for programs: a user's PATH may lack root's folders."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _run(*command: str) -> None:
    environment = {**os.environ, "PATH": _programs()}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise FerryError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FerryError(f"{command[0]} failed: {last}")
