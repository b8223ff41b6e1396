"""Every failure is one line on standard error and a nonzero exit status."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ferry import files, native, programs
from ferry.errors import FerryError
from ferry_lab.run import measuring, remote_files
from ferry_lab.run.plan import INTERFACES
from processes import is_measuring, started, wait_until, write_program
from support import TIMEOUT_S, Command

COMPUTE = ["bench", "--placement", "compute"]

# Arguments (FILE: an existing file of 2 MiB, DIR: a folder), exit status, the line.
CASES = [
    (["bench", "-r", "missing"], 1, "missing does not exist"),
    (["bench", "-r", "DIR"], 1, "is a directory"),
    (["bench", "-w", "DIR"], 1, "is a directory"),
    (["bench", "-r", "/dev/null"], 1, "not a regular file"),
    (["bench", "-r", "-b", "4m", "FILE"], 1, "needs 4 MiB"),
    (["bench", "FILE"], 1, "--overwrite replaces it"),
    (["bench", "-w", "no/such/folder/file"], 1, "does not exist; make it"),
    (["bench", "-w", "FILE/file"], 1, "is no folder"),
    (["bench", "-w", "-b", "1024t", "-t", "1g", "new"], 1, "free some space"),
    (["bench", "-r", "-b", "1m", "--device-cpus", "1023", "FILE"], 1, "1023"),
    (["bench", "-r", "-b", "1m", "--server-cpus", "a-b", "FILE"], 1, "server_cpus"),
    (["bench", "-r", "-b", "1m", "--json", "no/such/r.json", "FILE"], 1, "does not exist"),
    (["bench", "-r", "-b", "1m", "--json", "FILE", "FILE"], 1, "--overwrite replaces it"),
    (["bench"], 2, "PATH"),
    (["bench", "-b", "10x", "new"], 2, "'10x' is no size"),
    (["bench", "-b", "0", "new"], 2, "more than zero"),
    (["bench", "-t", "-4k", "new"], 2, "no size"),
    (["bench", "-b", "1m", "-t", "3k", "new"], 2, "no multiple"),
    (["bench", "-b", "4g", "-t", "4g", "new"], 2, "less than 2 GiB"),
    (["bench", "-i", "0", "new"], 2, "from 1 to"),
    (["bench", "-i", "many", "new"], 2, "no whole number"),
    (["bench", "--threads", "0", "new"], 2, "from 1 to"),
    (["bench", "-a", "nfs", "new"], 2, "'nfs' is not one of"),
    (["bench", "-a", "posix", "--queue-depth", "2", "new"], 2, "--queue-depth"),
    (["bench", "-a", "mmap", "--direct", "new"], 2, "--direct"),
    (["bench", "-b", "16000", "-t", "1000", "--direct", "new"], 2, "-t 1000 bytes is no multiple of 512"),
    (["bench", "-a", "posix", "-b", "9k", "-t", "768", "--direct", "new"], 2, "is no multiple of 512"),
    (["bench", "-w", "--cold", "new"], 2, "--cold is for reads"),
    (["bench", "-w", "-R", "new"], 2, "-R is for reads"),
    (["bench", "-r", "-W", "FILE"], 2, "-W is for writes"),
    (["bench", "-w", "-C", "--threads", "2", "new"], 2, "-C is for reads"),
    (["bench", "-C", "new"], 2, "-C needs --threads 2"),
    (["bench", "-C", "-Z", "--threads", "2", "new"], 2, "-C and -Z exclude"),
    (["bench", "-s", "0", "new"], 2, "from 1 to"),
    (["bench", "-D", "soon", "new"], 2, "no whole number"),
    (["bench", "-D", "0", "new"], 2, "from 1 to"),
    (["bench", "-o", "new", "new"], 2, "both name the file"),
    (["bench", "-b", "1024t", "-s", "1048576", "new"], 2, "too large"),
    (["bench", "-a", "uring", "--queue-depth", "1025", "new"], 2, "from 1 to 1024"),
    (["bench", "--queue-depth", "64", "new"], 2, "at most 63"),
    (["bench", "-t", "1g", "-b", "1g", "--threads", "4096", "new"], 1, "the buffers need"),
    (["bench", "-r", "-F", "-b", "1m", "FILE"], 1, ".00000000 does not exist"),
    (["bench", "-r", "-b", "1m", "-s", "3", "FILE"], 1, "-b 1 MiB -s 3 needs 3 MiB"),
    (["bench", "-r", "-R", "-b", "1m", "/proc/kallsyms"], 1, "has 0 bytes"),
    (["compare", "FILE"], 2, "'B'"),
    (["compare", "FILE", "missing"], 1, "is no JSON"),
    (["compare", "missing", "FILE"], 1, "missing does not exist; name what ferry bench or ferry metadata --json"),
    (["compare", "--format", "html", "a", "b"], 2, "'html' is not one of"),
    (["import"], 2, "FILE"),
    (["import", "missing"], 1, "missing does not exist"),
    (["import", "DIR"], 1, "Is a directory"),
    (["import", "FILE"], 1, "is no JSON"),
    (["import", "/dev/null"], 1, "is no JSON"),
    (["bench", "-r", "-e", "FILE"], 2, "-e is for writes"),
    (["bench", "--mix", "100", "new"], 2, "from 1 to 99"),
    (["bench", "--mix", "70", "-w", "new"], 2, "-w does not go with --mix"),
    (["bench", "--mix", "70", "--cold", "new"], 2, "--cold does not go with --mix"),
    (["bench", "--mix", "70", "--overwrite", "new"], 2, "--overwrite does not go with --mix"),
    (["bench", "--mix", "70", "--device", "cuda", "new"], 2, "--mix is for --device cpu"),
    (["bench", "--mix", "70", "-R", "--queue-depth", "2", "--time", "1", "new"], 2, "needs --queue-depth 1"),
    (["bench", "--mix", "70", "FILE"], 1, "exists, and --mix makes its own file; name another"),
    (["bench", "--ramp", "1", "new"], 2, "--ramp needs --time"),
    (["bench", "--time", "1", "-D", "1", "new"], 2, "-D and --time exclude each other"),
    (["bench", "--time", "0", "new"], 2, "from 1 to"),
    (["bench", "--rate", "1m", "--queue-depth", "2", "new"], 2, "choose --queue-depth 1 and more --threads"),
    (["bench", "--rate", "100k", "--time", "2", "new"], 2, "makes one call of -t 256 KiB in 3 seconds; choose"),
    (["bench", "--rate", "fast", "new"], 2, "'fast' is no size"),
    (["bench", "--device", "cuda", "--time", "1", "new"], 2, "--time is for --device cpu"),
    (["bench", "--device", "cuda", "--rate", "1m", "new"], 2, "--rate is for --device cpu"),
    (["bench", "-z", "--distribution", "zipf:1", "new"], 2, "-z and --distribution exclude each other"),
    (["bench", "--distribution", "zipf", "new"], 2, "like zipf:1.1 and hotspot:20/80"),
    (["bench", "--distribution", "zipf:0", "new"], 2, "above 0, at most 10"),
    (["bench", "--distribution", "hotspot:20/101", "new"], 2, "percent of the calls"),
    (["bench", "-r", "-k", "FILE"], 2, "-k is for writes"),
    (["bench", "--device", "rocm", "new"], 2, "'rocm' is not one of"),
    (["bench", "--device", "cuda", "-a", "posix", "new"], 2, "--device cuda is for interface"),
    (["bench", "--device", "cuda", "--placement", "service", "new"], 2, "choose host, compute"),
    (["bench", "--device", "cuda", "--device-cpus", "0", "new"], 2, "a GPU has none"),
    (["bench", "--placement", "device", "new"], 2, "'device' is not one of"),
    (["bench", "-a", "posix", "--placement", "compute", "new"], 2, "--placement is for interface"),
    (["bench", "--cache-size", "64m", "new"], 2, "--cache-size needs --placement compute"),
    (["bench", "--page-size", "64k", "new"], 2, "--page-size needs --placement compute"),
    (["bench", "--service-threads", "1", "new"], 2, "--service-threads needs --placement"),
    (["bench", "--warm", "new"], 2, "--warm needs --placement compute"),
    ([*COMPUTE, "--service-threads", "1", "new"], 2, "needs --placement service or automatic"),
    ([*COMPUTE, "--cache-size", "64x", "new"], 2, "'64x' is no size"),
    ([*COMPUTE, "--cache-size", "32k", "new"], 2, "less than a page of 64 KiB"),
    ([*COMPUTE, "--cache-size", "1024t", "new"], 1, "more than this machine's memory"),
    ([*COMPUTE, "--page-size", "3k", "new"], 2, "3 KiB is no power of two from 4 KiB to 2 MiB"),
    ([*COMPUTE, "--page-size", "2k", "new"], 2, "2 KiB is no power of two from 4 KiB to 2 MiB"),
    ([*COMPUTE, "--page-size", "4m", "new"], 2, "4 MiB is no power of two from 4 KiB to 2 MiB"),
    ([*COMPUTE, "-w", "--warm", "new"], 2, "--warm is for reads"),
    ([*COMPUTE, "--warm", "--cold", "new"], 2, "exclude each other"),
    (["bench", "--placement", "service", "--service-threads", "-1", "new"], 2, "from 0 to"),
    (["bench", "--placement", "service", "--service-threads", "x", "new"], 2, "no whole number"),
    (["bench", "--nonsense", "new"], 2, "--nonsense"),
    (["bench", "one", "two"], 2, "two"),
    (["study"], 2, "NAME"),
    (["study", "nonsense"], 2, "nonsense"),
    (["study", "placements", "--file", "missing"], 1, "missing does not exist"),
    (["study", "storages", "--storage", "foo://x"], 2, "'foo://x' names no storage that Ferry knows"),
    (["study", "storages", "--storage", "x"], 2, "x is no URI; --dir is for folders"),
    (["study", "placements", "--file", "DIR"], 1, "is a directory"),
    (["study", "placements", "--file", "/proc/version"], 1, "at least 1 MiB"),
    (["study", "placements", "--file", "FILE", "--dir", "DIR"], 2, "--dir"),
    (["study", "placements", "--dir", "missing"], 1, "does not exist"),
    (["study", "placements", "--dir", "FILE"], 1, "is no folder"),
    (["study", "placements", "--out", "no/such/folder"], 1, "does not exist"),
    (["study", "placements", "--repeats", "1"], 2, "from 2 to"),
    (["study", "endian", "--storage", "ceph:/x?conf=missing"], 1, "this file cannot be read"),
    (["cp", "FILE", "FILE/inside"], 1, "Not a directory; a part of its path is no directory; name another"),
    (["cp", "FILE", ""], 2, "an empty path names nothing"),
    (["info", ""], 2, "an empty path names nothing"),
    (["info", "missing"], 1, "missing does not exist"),
    (["info", "FILE/inside"], 1, "Not a directory"),
    (["nonsense"], 2, "nonsense"),
    (["--nonsense"], 2, "--nonsense"),
]


def check_one_line(text: str, says: str) -> None:
    assert text.startswith("ferry: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert ";" in text  # what to do next
    assert says in text


def fails(command: Command, *arguments: object, says: str, status: int = 1, **options: Any) -> None:
    """Sees that the command fails in one line that also says what to do next."""
    check_one_line(command.fails(*arguments, says=says, status=status, **options), says)


@pytest.mark.parametrize(("arguments", "status", "words"), CASES, ids=lambda v: str(v)[:50])
def test_bad_input_is_one_line(
    command: Command, scratch: Path, data: Path, arguments: list[str], status: int, words: str
) -> None:
    there = {"FILE": str(data), "DIR": str(data.parent)}
    given = [a.replace("FILE", there["FILE"]).replace("DIR", there["DIR"]) for a in arguments]
    before = data.read_bytes()
    fails(command, *given, says=words, status=status)
    assert data.read_bytes() == before
    assert list(scratch.iterdir()) == []


def built_in(command: Command, folder: Path) -> dict[str, str]:
    """The command's environment with programs from a folder."""
    return {**command.environment, "FERRY_BUILD_DIR": str(folder)}


def test_mixed_calls_need_buffers_for_both(command: Command, scratch: Path) -> None:
    """For either kind the memory would do."""
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    flags = ["-t", "1g", "-b", "1g", "--threads", str(gib // 2 + 1)]
    command.fails("bench", "--mix", "50", *flags, "missing/new", says="the buffers need")
    command.fails("bench", "-w", *flags, "missing/new", says="missing does not exist")


def test_a_program_that_is_missing(command: Command, tmp_path: Path) -> None:
    fails(command, "info", says="ferry-info is not in", env=built_in(command, tmp_path))


def test_a_program_that_dies(command: Command, tmp_path: Path) -> None:
    write_program(tmp_path / "ferry-info", "echo oh no >&2\nkill -SEGV $$\n")
    fails(command, "info", says="signal 11: oh no", env=built_in(command, tmp_path))


def test_a_file_that_vanishes(command: Command, tmp_path: Path, data: Path) -> None:
    # Replaces ferry-bench, and removes the file before running it.
    write_program(tmp_path / "ferry-bench", f'rm -f "{data}"\nexec "{programs.find_program()}" "$@"\n')
    gone = "No such file or directory; it was gone"
    fails(command, "bench", "-r", "-b", "1m", data, says=gone, env=built_in(command, tmp_path))


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_file_that_vanishes_between_repeats(command: Command, scratch: Path, data: Path, interface: str) -> None:
    with started(command, "bench", "-a", interface, "-r", "-b", "2m", "-i", "100000", data) as process:
        wait_until(lambda: is_measuring(command))
        time.sleep(0.3)
        data.unlink()
        output, message = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    check_one_line(message, "No such file")
    assert "gone" in message
    assert output == ""
    assert list(scratch.iterdir()) == []


@contextmanager
def tmpfs(folder: Path, option: str) -> Iterator[Path]:
    """A file system of its own, in a new folder."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", option, "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs root, to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    with tmpfs(tmp_path / "small", "size=8m") as folder:
        yield folder


@pytest.mark.parametrize("flags", [["-b", "16m"], ["-b", "2m", "-s", "2", "-F", "--threads", "4"]])
def test_a_small_disk_is_noticed_before_anything_is_written(
    command: Command, small_disk: Path, flags: list[str]
) -> None:
    fails(command, "bench", *flags, small_disk / "new", says="8 MiB free and 20 MiB are needed; free some space")
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_disk_that_fills_up_meanwhile(command: Command, small_disk: Path, interface: str) -> None:
    # The disk has space at the start, and none for writing: replaces another program.
    program = small_disk.parent / "bin" / "ferry-bench"
    filler = small_disk / "other"
    write_program(program, f'head -c 7m /dev/zero >"{filler}"\nexec "{programs.find_program()}" "$@"\n')
    # The disk fills up during a transfer, whose rest is retried.
    flags = ["-a", interface, "-t", "640k", "-b", "1920k", "-i", "1"]
    why = "No space left on device" if interface == "posix" else ""
    fails(command, "bench", *flags, small_disk / "new", says=why, env=built_in(command, program.parent))
    assert [path.name for path in small_disk.iterdir()] == ["other"]


@pytest.mark.parametrize("interface", ["ferry", "posix", "uring"])
def test_a_job_whose_disk_fills_up_ends_the_others(
    command: Command, small_disk: Path, data: Path, interface: str
) -> None:
    program = small_disk.parent / "bin" / "ferry-bench"
    filler = small_disk / "other"
    write_program(program, f'head -c 7m /dev/zero >"{filler}"\nexec "{programs.find_program()}" "$@"\n')
    jobs = small_disk.parent / "jobs.fio"
    jobs.write_text(
        f"[reader]\nfilename={data}\ntime_based\nruntime=1h\n"
        f"[writer]\nrw=write\nbs=640k\nsize=1920k\nfilename={small_disk / 'new'}\n"
    )
    says = "[writer] writing 655360 bytes at "
    fails(command, "bench", "--jobs", jobs, "-a", interface, says=says, env=built_in(command, program.parent))
    assert [path.name for path in small_disk.iterdir()] == ["other"]


def test_a_folder_that_may_not_be_written(command: Command, tmp_path: Path, data: Path) -> None:
    with tmpfs(tmp_path / "sealed", "ro") as folder:
        for arguments in (["-w", folder / "new"], ["-r", "-b", "1m", data, "--json", folder / "r"]):
            fails(command, "bench", *arguments, says="may not be written; choose another")


def test_files_that_may_not_be_touched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do everything
    with pytest.raises(FerryError, match="may not be read"):
        files.check_readable_file(str(data))
    with pytest.raises(FerryError, match="may not be written"):
        files.check_folder(str(tmp_path), 0)
    with pytest.raises(FerryError, match="may not be written"):
        files.check_new_file(str(data), 0, True)


def test_a_disk_that_is_too_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(FerryError, match="1 byte free and 20 MiB are needed"):
        files.check_folder(str(tmp_path), 16 << 20)
    with pytest.raises(FerryError, match="free some space"), files.scratch_folder(str(tmp_path), 1):
        pytest.fail("there is no room")
    assert list(tmp_path.iterdir()) == []


# ---- URIs of storages that are not there ---------------------------------------------------------


@pytest.mark.parametrize("uri", ["s3://bucket/key", "http://x/y", "nfs:/export/x", "cephfs:/a", "pvfs:/a"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "URI"],
        ["bench", "URI"],
        ["bench", "-r", "-o", "URI"],
        ["cp", "URI", "x"],
        ["cp", "x", "URI"],
        ["layout", "get", "URI"],
        ["import", "URI"],
        ["compare", "URI", "x"],
        ["tune", "--dir", "URI"],
    ],
)
def test_an_unknown_scheme_is_no_missing_file(command: Command, uri: str, arguments: list[str]) -> None:
    given = [uri if word == "URI" else word for word in arguments]
    why = f"'{uri}' names no storage that Ferry knows; its URIs are nfs://server/export"
    command.fails(*given, says=why, status=2)


def test_the_kernels_files_need_no_scheme(command: Command) -> None:
    command.fails("info", "file:///etc/passwd", says="a file that is mounted is named by its path alone", status=2)


def test_a_folder_may_be_named_like_a_scheme(command: Command, scratch: Path) -> None:
    (scratch / "s3:" / "bucket").mkdir(parents=True)
    (scratch / "s3:" / "bucket" / "key").write_bytes(b"x")
    command.succeeds("info", "s3://bucket/key")
    assert "does not exist" in command.run("info", "C:/x").stderr


# ---- MPI -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_here", [False, True])
def test_a_build_without_ranks_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_here: bool
) -> None:
    monkeypatch.setenv("FERRY_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    if is_here:
        write_program(tmp_path / "mpicxx", "")
    with pytest.raises(FerryError) as caught:
        measuring.read_mpi_info()
    message = str(caught.value)
    assert ("it needs an MPI library (Debian: " in message) == (not is_here)
    found = f"the MPI library of {tmp_path}/mpicxx is here, and a build from now on uses it"
    assert (found in message) == is_here


@pytest.mark.parametrize(
    ("place", "compiler", "words"),
    [
        ("wheel", False, "ferry.collective is not in a wheel that pip has built, which cannot know your MPI library"),
        ("wheel", True, "ferry.collective is not in a wheel that pip has built, which cannot know your MPI library"),
        ("checkout", False, "install an MPI library (Debian: libmpich-dev) and build again"),
        ("checkout", True, "is not built, though an MPI library is here ("),
    ],
)
def test_a_package_without_collective_says_why(tmp_path: Path, place: str, compiler: bool, words: str) -> None:
    """The module without the extension; no mpi4py is reached."""
    package = tmp_path / "x" / "ferry"
    package.mkdir(parents=True)
    for name in ("collective.py", "errors.py", "laboratory.py", "mpi_modules.py", "programs.py", "uris.py"):
        shutil.copy(Path(files.__file__).parent / name, package)
    (package / "__init__.py").touch()
    if place == "checkout":
        (tmp_path / "CMakeLists.txt").touch()
    if compiler:
        write_program(tmp_path / "mpicxx", "")
    done = subprocess.run(
        [sys.executable, "-c", "import ferry.collective"],
        env={"PYTHONPATH": str(tmp_path / "x"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1]


# ---- scratch files -------------------------------------------------------------------------------


def test_an_error_of_a_scratch_file_names_the_folder_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(FerryError) as caught, files.scratch_folder(str(tmp_path), 0) as folder:
        raise FerryError(f"{folder}/write-1: No space left on device; free some space")
    assert str(caught.value) == (f"a scratch file in {tmp_path}: No space left on device; free some space")
    with pytest.raises(native.MeasuringError) as measuring, files.scratch_folder(str(tmp_path), 0) as folder:
        raise native.MeasuringError(f"the contents of {folder}/a are wrong", 0)
    assert str(measuring.value) == f"the contents of a scratch file in {tmp_path} are wrong"
    assert measuring.value.error_number == 0


def test_a_scratch_folder_that_is_not_empty_at_once_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def rmdir(*given: object, **more: object) -> None:
        calls.append(given)
        if len(calls) == 1:
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        remove(*given, **more)

    remove = os.rmdir
    monkeypatch.setattr(os, "rmdir", rmdir)
    with files.scratch_folder(str(tmp_path), 0) as folder:
        (folder / "file").write_text("bytes")
    assert list(tmp_path.iterdir()) == []
    assert len(calls) == 2


def test_a_relative_folder_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FerryError) as caught, files.scratch_folder(".", 0) as folder:
        raise FerryError(f"{folder.absolute()}/a: No space left on device")
    assert str(caught.value) == "a scratch file in .: No space left on device"


def test_an_error_of_a_scratch_file_on_another_storage_names_the_storage() -> None:
    place = remote_files.scratch_place("nfs://server/export?uid=0", 0)
    with pytest.raises(FerryError) as caught, place as scratch:
        raise FerryError(f"{scratch.path('a')}: Connection refused")
    assert str(caught.value) == "a scratch file in nfs://server/export?uid=0: Connection refused"
