"""Collective I/O from Python: programs that run under mpiexec, with mpi4py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import BUILD, ROOT, built, run_program

pytest.importorskip("ferry._collective", reason="built without an MPI library")
MPIEXEC = shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")

EXAMPLE = ROOT / "examples" / "checkpoint" / "checkpoint.py"
CHECKPOINT = BUILD / "ferry-checkpoint"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What programs run with. mpi4py's wheel asks for MPICH by a name that Debian's does not have."""
    libraries = tmp_path_factory.mktemp("libraries")
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"):
        if Path(folder, "libmpich.so.12").exists():
            (libraries / "libmpi.so.12").symlink_to(Path(folder, "libmpich.so.12"))
            break
    search = [str(libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LD_LIBRARY_PATH": ":".join(search)}


def run(ranks: int, environment: dict[str, str], *command: object) -> subprocess.CompletedProcess[str]:
    """Runs a program with this many ranks."""
    return run_program(MPIEXEC, "-n", ranks, *command, env=environment)


# What every program begins with.
HEAD = """
import errno, os, sys
import numpy as np
from mpi4py import MPI
from ferry import collective
comm = MPI.COMM_WORLD
folder = sys.argv[1]
def outcome(call):
    try:
        call()
    except Exception as error:
        return error
"""


Passes = Callable[..., str]


@pytest.fixture
def passes(environment: dict[str, str], tmp_path: Path) -> Passes:
    """Runs a program whose text is given, which must succeed; returns what it wrote to stderr."""

    def passes(ranks: int, text: str, before: str = "", **settings: str) -> str:
        program = tmp_path / "program.py"
        program.write_text(before + HEAD + text)
        done = run(ranks, environment | settings, sys.executable, "-P", program, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return passes


@pytest.mark.parametrize(
    ("mpi4py", "words"),
    [
        ("raise ModuleNotFoundError('No module named mpi4py')", "ferry.collective needs mpi4py, over '"),
        (
            "raise ImportError('libmpi.so.12: cannot open shared object file')",
            "mpi4py does not load: libmpi.so.12: cannot open shared object file; Ferry was built with '",
        ),
    ],
)
def test_without_mpi4py_it_says_what_to_do(
    environment: dict[str, str], tmp_path: Path, mpi4py: str, words: str
) -> None:
    (tmp_path / "mpi4py.py").write_text(mpi4py)
    search = f"{tmp_path}:{environment['PYTHONPATH']}"
    program = "import ferry.collective"
    done = run_program(sys.executable, "-P", "-c", program, env=environment | {"PYTHONPATH": search})
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: {words}")
    assert "; build it with that library: pip install --no-binary mpi4py mpi4py" in message


def test_unknown_schemes_are_no_missing_files(passes: Passes) -> None:
    passes(2, """
error = outcome(lambda: collective.open(comm, "s3://bucket/key", "w"))
assert isinstance(error, ValueError), repr(error)
assert str(error).startswith("'s3://bucket/key' names no storage that Ferry knows"), error
""")  # fmt: skip


def test_checkpoints_of_both_languages_are_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    python = [sys.executable, "-P", EXAMPLE]
    done = run(4, environment, *python, "write", tmp_path / "python")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("method aggregate with 2 writers: ")
    assert run(3, environment, CHECKPOINT, "write", tmp_path / "native").returncode == 0
    assert (tmp_path / "python").read_bytes() == (tmp_path / "native").read_bytes()
    assert run(2, environment, CHECKPOINT, "read", tmp_path / "python").returncode == 0
    assert run(3, environment, *python, "read", tmp_path / "native").returncode == 0
    with (tmp_path / "native").open("r+b") as file:
        file.seek(1000)
        file.write(b"wrong")
    done = run(3, environment, *python, "read", tmp_path / "native")
    assert done.returncode != 0 and "has read something else" in done.stderr
    done = run(2, environment, *python, "read", tmp_path / "missing")
    assert done.returncode != 0 and "No such file or directory" in done.stderr


def test_views_positions_and_sizes(passes: Passes) -> None:
    passes(3, """
mine = np.arange(1000, dtype=np.int32) + 1000 * comm.rank
with collective.open(comm, folder + "/file", "x+", writers=2) as file:
    assert file.writers == [0, 1], file.writers
    assert file.hints["cb_nodes"] == "2" and file.hints["ferry_method"] == "automatic", file.hints
    file.set_view(40 * comm.rank, collective.TypeMap.strided(1, 40, 40 * comm.size))
    assert file.write_all(mine[:300]) == 1200
    assert file.write_all(mine[300:]) == 2800
    file.sync()
    assert file.size_bytes() == 12000
    got = np.zeros_like(mine)
    assert file.read_at_all(0, got) == 4000 and (got == mine).all()
    assert file.read_at(400, got) == 3600 and (got[:900] == mine[100:]).all()
    # The same view as an MPI datatype.
    vector = MPI.INT32_T.Create_vector(1, 10, 10).Create_resized(0, 40 * comm.size)
    file.set_view(40 * comm.rank, collective.TypeMap.of(vector))
    got[:] = 0
    assert file.read_all(got) == 4000 and (got == mine).all()
    file.resize(100)
    assert file.read_at_all(0, got) == min(40, 100 - 40 * comm.rank)
    statistics = file.statistics()
    assert statistics["stripes"]["stripe_bytes"] >= 0 and statistics["mean"].keys() == statistics["maximum"].keys()
    counts = statistics["counts"]
    # All on one node: at most lists of extents are sent.
    assert counts["shared_bytes"] > 8000 and counts["message_bytes"] < 1000, counts
    file.resize(0)
    file.set_view(4 * comm.rank, collective.TypeMap(), "big", 4)
    file.write_at_all(0, np.array([7 + comm.rank], np.int32))
    file.read_at(0, got[:1])
    assert got[0] == 7 + comm.rank
    error = outcome(lambda: file.set_view(0, collective.TypeMap(), "middle"))
    assert isinstance(error, ValueError) and str(error).startswith("byte_order is one of 'native'"), error
comm.Barrier()
assert (np.fromfile(folder + "/file", ">i4") == [7, 8, 9]).all()
""")  # fmt: skip


def test_datatypes_of_mpi4py_are_type_maps(passes: Passes) -> None:
    """mpi4py makes datatypes with large counts; positions are found by writing a byte at a time."""
    passes(1, """
base = MPI.INT16_T
types = {
    "contiguous": (base.Create_contiguous(3), [(0, 6)]),
    "vector": (base.Create_vector(3, 2, 5), [(0, 4), (10, 4), (20, 4)]),
    "hvector": (base.Create_hvector(2, 1, 7), [(0, 2), (7, 2)]),
    "indexed": (base.Create_indexed([2, 1], [0, 4]), [(0, 4), (8, 2)]),
    "hindexed": (base.Create_hindexed([2, 1], [1, 11]), [(1, 4), (11, 2)]),
    "indexed block": (base.Create_indexed_block(2, [0, 3]), [(0, 4), (6, 4)]),
    "hindexed block": (base.Create_hindexed_block(2, [0, 9]), [(0, 4), (9, 4)]),
    "struct": (MPI.Datatype.Create_struct([1, 2], [0, 8], [base, MPI.BYTE]), [(0, 2), (8, 2)]),
    "subarray": (base.Create_subarray([3, 4], [2, 2], [1, 1]), [(10, 4), (18, 4)]),
    "resized": (base.Create_resized(0, 40), [(0, 2)]),
    "darray": (base.Create_darray(2, 1, [4], [MPI.DISTRIBUTE_BLOCK], [MPI.DISTRIBUTE_DFLT_DARG], [2]), [(4, 4)]),
    "dup": (base.Dup(), [(0, 2)]),
}
for name, (datatype, extents) in types.items():
    path = folder + "/" + name
    view = collective.TypeMap.of(datatype)
    size = sum(length for _, length in extents)
    assert (view.data_bytes, view.period_bytes) == (size, datatype.Get_extent()[1]), name
    with collective.open(comm, path, "w") as file:
        file.set_view(0, view)
        file.write_all(b"x" * size)
    wanted = bytearray(extents[-1][0] + extents[-1][1])
    for offset, length in extents:
        wanted[offset : offset + length] = b"x" * length
    assert open(path, "rb").read() == wanted, name
""")  # fmt: skip


def test_errors_are_those_of_all_ranks(passes: Passes) -> None:
    passes(3, """
def failure(call):
    error = outcome(call)
    return type(error).__name__ if isinstance(error, OSError) else error
assert failure(lambda: collective.open(comm, folder + "/none/file", "w")) == "FileNotFoundError"
file = collective.open(comm, folder + "/file", "w+")
# Only one rank asks for what cannot be.
assert failure(lambda: file.write_at_all(-1 if comm.rank == 1 else 0, b"x")) == "OSError"
assert failure(lambda: file.set_view(0, collective.TypeMap.extents([(10, 1), (0, 1)]))) == "OSError"
assert failure(lambda: collective.TypeMap.contiguous(-1)) == "OSError"
file.close()
file.close()
assert failure(lambda: file.sync()) == "OSError"
error = outcome(lambda: collective.open(comm, "file", "a"))
assert isinstance(error, ValueError) and str(error).startswith("mode is one of 'r'"), error
error = outcome(lambda: file.read_at_all(0, b"read-only memory"))
assert isinstance(error, (BufferError, ValueError, TypeError)), error
""")  # fmt: skip


@pytest.mark.parametrize("threads", ["multiple", "single"])
def test_nonblocking_transfers_are_futures(passes: Passes, threads: str) -> None:
    """With a thread that carries them out and, where MPI is for one thread alone, without."""
    passes(3, before=f"import mpi4py\nmpi4py.rc.thread_level = {threads!r}\n", text="""
import asyncio, gc
mine = np.arange(1000, dtype=np.int32) + 1000 * comm.rank
with collective.open(comm, folder + "/file", "w+", method="aggregate") as file:
    first = file.iwrite_at_all(4000 * comm.rank, mine)
    # Nobody else keeps this buffer.
    file.iwrite_at_all(4000 * (comm.size + comm.rank), mine + 1)
    gc.collect()
    got = np.zeros_like(mine)
    read = file.iread_at_all(4000 * (comm.size + comm.rank), got)
    assert read.result() == 4000 and (got == mine + 1).all()
    assert first.done() and first.result() == 4000 and first.exception() is None
    again = file.iread_at_all(4000 * comm.rank, got)
    async def both():
        return await again
    assert asyncio.run(both()) == 4000 and (got == mine).all()
    file.set_view(0, collective.TypeMap())
    ends = [file.iwrite_all(mine[:comm.rank]), file.iread_all(got[:1])]
    assert [end.result() for end in ends] == [4 * comm.rank, 4]
    wrong = file.iwrite_at_all(-1 if comm.rank == 1 else 0, mine)
    assert isinstance(wrong.exception(), OSError)
comm.Barrier()
assert collective.open(comm, folder + "/file").size_bytes() == 8000 * comm.size
""")  # fmt: skip


def test_files_of_groups(passes: Passes) -> None:
    passes(3, """
with collective.open(comm, folder + "/file", "w+", files=3) as file:
    assert file.name == folder + f"/file.{comm.rank}", file.name
    file.write_all(np.full(10 + comm.rank, comm.rank, np.uint8))
    assert file.size_bytes() == 10 + comm.rank
comm.Barrier()
assert open(folder + "/file.2", "rb").read() == bytes([2] * 12)
""")  # fmt: skip


def test_unknown_hints_are_warned_about_once(passes: Passes) -> None:
    said = passes(2, """
collective.open(comm, folder + "/file", "w", hints={"cb_nods": "2", "cb_nodes": "1"}).close()
""")  # fmt: skip
    assert said.count("hint cb_nods is not known") == 1


def test_arrays_in_the_memory_of_a_gpu(passes: Passes) -> None:
    passes(2, FERRY_CUDA_LIBRARY=built("ferry_mock_cuda"), text="""
import ferry
mine = np.arange(100_000, dtype=np.int32) + 1_000_000 * comm.rank
ferry.save(folder + f"/{comm.rank}.npy", mine)
# One rank's array is in the host's memory.
source = ferry.load(folder + f"/{comm.rank}.npy", device="cuda:1") if comm.rank == 0 else mine
class Foreign:  # another package's array
    __cuda_array_interface__ = source.__cuda_array_interface__ if comm.rank == 0 else None
with collective.open(comm, folder + "/file", "w+") as file:
    file.set_view(400 * comm.rank, collective.TypeMap.strided(1, 400, 800))
    assert file.write_at_all(0, source) == 400_000
    file.iwrite_at_all(400_000, Foreign if comm.rank == 0 else mine).result()
    target = ferry.GpuArray((200_000,), np.int32, "cuda:0")
    assert file.read_at_all(0, target) == 800_000
    got = target.copy_to_host()
    assert (got[:100_000] == mine).all() and (got[100_000:] == mine).all()
    assert file.read_at(400, target) == 799_600
    assert file.statistics()["counts"]["gpu_bytes"] >= 2 * 800_000 + 799_600
    assert isinstance(outcome(lambda: file.read_at(0, Foreign(0))), (TypeError, ValueError))
""")  # fmt: skip


def test_a_bad_argument_of_one_rank_is_an_error_on_all(passes: Passes) -> None:
    """The rank that passed it raises its own error, the others one that names the rank."""
    passes(3, """
mine = np.zeros(10, np.uint8)
def all_raise(kind, call, bad=1):
    error = outcome(call)
    if comm.rank == bad:
        assert isinstance(error, kind) and not isinstance(error, OSError), repr(error)
    else:
        assert isinstance(error, OSError) and error.errno == 22, repr(error)
        assert f"(rank {bad}: " in str(error), error
    comm.Barrier()
name = folder + "/file"
wrong = comm.rank == 1
all_raise(ValueError, lambda: collective.open(comm, name, "a" if wrong else "w"))
all_raise(ValueError, lambda: collective.open(comm, name, "w", method="best" if wrong else "serial"))
all_raise(TypeError, lambda: collective.open(comm, 7 if wrong else name, "w"))
all_raise(TypeError, lambda: collective.open(comm, name, "w", hints={"cb_nodes": 2 if wrong else "2"}))
all_raise(TypeError, lambda: collective.open(comm, name, "w", files="2" if wrong else 2))
assert os.listdir(folder) == ["program.py"], os.listdir(folder)
comm.Barrier()
file = collective.open(comm, name, "w+")
no_buffers = [None, 7, "text", b"read only", np.zeros((4, 4), np.uint8)[:, 1], np.array([file])]
kinds = (TypeError, ValueError, BufferError)
for call in (file.read_all, file.iread_all, lambda buffer: file.read_at_all(0, buffer),
             lambda buffer: file.iread_at_all(0, buffer)):
    for no_buffer in no_buffers:
        def finish(call=call, no_buffer=no_buffer):
            result = call(no_buffer if wrong else mine)
            if isinstance(result, collective.Transfer):
                result.result()
        all_raise(kinds, finish)
all_raise(kinds, lambda: file.write_all("text" if wrong else mine))
all_raise(TypeError, lambda: file.write_at_all("0" if wrong else 0, mine))
all_raise(TypeError, lambda: file.write_at_all(1 << 70 if wrong else 0, mine))
all_raise(TypeError, lambda: file.iwrite_at_all(None if wrong else 0, mine).result())
all_raise(TypeError, lambda: file.resize("0" if wrong else 0))
all_raise(TypeError, lambda: file.resize(None if wrong else 0))
view = collective.TypeMap()
all_raise(ValueError, lambda: file.set_view(0, view, "middle" if wrong else "big"))
all_raise(TypeError, lambda: file.set_view(0, "view" if wrong else view))
all_raise(TypeError, lambda: file.set_view("0" if wrong else 0, view))
# None of that put the ranks out of step.
assert file.write_at_all(10 * comm.rank, mine) == 10
assert file.size_bytes() == 30
file.close()
""")  # fmt: skip


def test_calls_that_do_not_match_are_errors_on_all_ranks(passes: Passes) -> None:
    passes(3, """
def failure(call):
    error = outcome(call)
    assert isinstance(error, OSError), repr(error)
    return error
file = collective.open(comm, folder + "/file", "w+")
file.write_all(np.zeros(10, np.uint8))
error = failure(file.statistics if comm.rank == 0 else file.close)
assert error.errno == errno.EPROTO, error
assert "(rank 0 called statistics, rank 1 called close)" in str(error), error
if comm.rank == 0:
    # None of the others makes these any more.
    assert failure(file.sync).errno == errno.EPROTO
    assert failure(file.close).errno == errno.EPROTO
with collective.open(comm, folder + "/file", "w+") as file:
    file.write_all(np.zeros(10, np.uint8))
""")  # fmt: skip
