"""``ferry run --mpi-io``: programs of MPI-IO that know nothing of Ferry, compared with themselves.

They run with the MPI library of the build.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ferry import programs
from ferry.errors import FerryError

from relay import Relay
from served import Node, Server
from support import BUILD, mock_of_pvfs2, run_program


def of_the_build(variable: str) -> str:
    """Returns what CMake has found for the build; empty: nothing."""
    cache = BUILD / "CMakeCache.txt"
    found = re.search(rf"^{variable}:\w+=(.*)$", cache.read_text() if cache.exists() else "", re.MULTILINE)
    return found[1] if found else ""


MPIEXEC = of_the_build("MPIEXEC_EXECUTABLE") or shutil.which("mpiexec") or ""
OPEN_MPI = bool(MPIEXEC) and "Open" in run_program(MPIEXEC, "--version").stdout
if OPEN_MPI:  # which refuses root, and more ranks than cores, unless told otherwise
    os.environ.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",  # version 4
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",  # 5
    )


def compiler_of(language: str) -> str:
    """Returns the compiler of the build's MPI library for ``cc`` or ``fort``. Skips the test where it is not there."""
    of_cxx = of_the_build("MPI_CXX_COMPILER") or "mpicxx"
    found = shutil.which(re.sub(r"mpi(cxx|c\+\+|CC)", f"mpi{language}", of_cxx))
    if found is None:
        pytest.skip(f"absent: mpi{language}")
    return found


def folder_of_the_mpi_library() -> str:
    """Debian's Fortran compiler of Open MPI links MPICH where that is the default, unless it has this folder."""
    return str(Path(of_the_build("MPI_mpi_LIBRARY") or "/usr/lib/libmpi.so").parent)


def why_absent() -> str:
    try:
        programs.find_library("libferry_mpiio.so")
    except FerryError as error:
        return f"absent: {error}"
    return "" if MPIEXEC else "absent: mpiexec"


pytestmark = pytest.mark.skipif(bool(why_absent()), reason=why_absent())

LIBRARY = BUILD / "libferry_mpiio.so"
CALLS = 120
STEPS = 16
SEED = int(os.environ.get("FERRY_TEST_SEED", random.randrange(1 << 32)))
# What runs on a server with nonblocking collective transfers: with Open MPI, these need threads.
MODES = ["threads", "blocking"] if OPEN_MPI else ["threads", "one thread"]
# What a program may see otherwise without Ferry: collective reads of MPICH 4.0 and Open MPI 4.1 report bytes
# behind the end of the file; MPICH's change the memory for them. MPICH 4.2 does neither.
OTHERWISE = {"read_all over the end", "the hint ferry_method"}
if not OPEN_MPI:
    OTHERWISE |= {"bytes behind it", "read_at_all behind the end"}
# Only asked for under Ferry: without it, the other ranks would wait for ever, or MPICH 4.0 would abort.
ONLY_FERRY = {} if OPEN_MPI else {"a type with large counts": "done 40", "what that wrote": "right"}
ONLY_FERRY |= {
    "a negative count on one rank": "argument, handled 1",
    "a negative offset on one rank": "argument, handled 2",
    "the next call": "done",
    "a negative count beside what is left": "argument",
}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_PRELOAD", "FERRY_RUN"))}
    return kept | more


def mpi(ranks: int, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_program(MPIEXEC, "-n", ranks, *words, env=environment(**variables))


def under_ferry(ranks: int, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The same with the library alone, as ``ferry run --mpi-io`` sets it up."""
    return mpi(ranks, *words, LD_PRELOAD=str(LIBRARY), FERRY_RUN_SUMMARY="-", **variables)


def transfers(done: subprocess.CompletedProcess[str]) -> int:
    """How many collective transfers Ferry carried out, by the summary of all files."""
    assert done.returncode == 0, done
    return sum(map(int, re.findall(r"^ferry-run: .*: (\d+) collective transfers", done.stderr, re.MULTILINE)))


def cases(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


# ---- the functions, at random and at the edges -----------------------------------------------------


@pytest.mark.parametrize(("ranks", "threads"), [(1, False), (2, True), (3, False), (4, True)])
def test_calls_at_random_do_the_same(tmp_path: Path, ranks: int, threads: bool) -> None:
    words = [SEED + ranks, CALLS, *(["threads"] if threads else [])]
    plain = mpi(ranks, BUILD / "mpiio_random_calls", tmp_path / "plain", *words)
    assert plain.returncode == 0, plain
    done = under_ferry(ranks, BUILD / "mpiio_random_calls", tmp_path / "ferry", *words)
    assert transfers(done) > 0, done.stderr
    assert done.stdout == plain.stdout, f"seed {SEED + ranks}"
    assert (tmp_path / "ferry").read_bytes() == (tmp_path / "plain").read_bytes(), f"seed {SEED + ranks}"


def test_edges_are_the_same(tmp_path: Path) -> None:
    plain = cases(mpi(2, BUILD / "mpiio_edges", tmp_path / "plain").stdout)
    done = under_ferry(2, BUILD / "mpiio_edges", tmp_path / "ferry")
    assert transfers(done) > 0, done.stderr
    found = cases(done.stdout)
    assert {"the hint ferry_method"} <= {name for name in plain if found[name] != plain[name]} <= OTHERWISE
    assert found["read_all over the end"] == "[done 40 to 100] [done 40 to 100]"
    assert found["bytes behind it"] == "[as before] [as before]"
    assert found["read_at_all behind the end"] == "[done 0] [done 0]"
    assert {name: found[name] for name in ONLY_FERRY} == {
        name: f"[{seen}] [{seen}]" for name, seen in ONLY_FERRY.items()
    }
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"plain": b"ooss", "ferry": b"ooss"}


LAYOUTS = [(3, 1, "threads"), (4, 2, MODES[-1])]


@pytest.mark.parametrize(("ranks", "ranks_per_node", "mode"), LAYOUTS)
@pytest.mark.parametrize("by_ferry", [False, True], ids=["MPI library", "Ferry"])
def test_what_a_rank_writes_others_read(
    tmp_path: Path, ranks: int, ranks_per_node: int, mode: str, by_ferry: bool
) -> None:
    run = under_ferry if by_ferry else mpi
    words = [BUILD / "mpiio_consistent", tmp_path / "file", SEED, STEPS, mode]
    done = run(ranks, *words, FERRY_RANKS_PER_NODE=str(ranks_per_node))
    assert done.stdout == "seen:" + ranks * " [right]" + "\n", f"seed {SEED}"
    # Whatever is in atomic mode there is the library's, which may be all.
    assert not by_ferry or "ferry-run: " in done.stderr


FORTRAN = """
program p
  use mpi
  implicit none
  integer :: rank, ranks, error, file, view, i, data(100), back(100)
  integer(kind=mpi_offset_kind) :: begin
  call mpi_init(error)
  call mpi_comm_rank(mpi_comm_world, rank, error)
  call mpi_comm_size(mpi_comm_world, ranks, error)
  data = [(rank * 1000 + i, i = 1, 100)]
  call mpi_file_open(mpi_comm_world, 'shared', mpi_mode_create + mpi_mode_rdwr, mpi_info_null, file, error)
  call mpi_type_vector(100, 1, ranks, mpi_integer, view, error)
  call mpi_type_commit(view, error)
  begin = 4 * rank
  call mpi_file_set_view(file, begin, mpi_integer, view, 'native', mpi_info_null, error)
  call mpi_file_write_all(file, data, 100, mpi_integer, mpi_status_ignore, error)
  begin = 0
  call mpi_file_read_at_all(file, begin, back, 100, mpi_integer, mpi_status_ignore, error)
  call mpi_file_close(file, error)
  if (any(back /= data)) print *, 'wrong'
  call mpi_finalize(error)
end program
"""


@pytest.mark.parametrize(
    ("interface", "declares"),
    [("use mpi", "implicit none"), ("", "implicit none\n  include 'mpif.h'")],
    ids=["module", "include"],
)
def test_a_fortran_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interface: str, declares: str) -> None:
    compiler = compiler_of("fort")
    (tmp_path / "p.f90").write_text(FORTRAN.replace("use mpi", interface).replace("implicit none", declares))
    folder = folder_of_the_mpi_library()
    subprocess.run([compiler, "p.f90", "-o", "p", f"-L{folder}"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    done = under_ferry(2, tmp_path / "p")
    assert transfers(done) == 2
    assert done.stdout == ""
    assert (tmp_path / "shared").stat().st_size == 800


PYTHON = """
import sys
import numpy
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
file = MPI.File.Open(MPI.COMM_WORLD, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_view(400 * rank, MPI.DOUBLE)  # MPICH 4.0 aborts with a view of a type that mpi4py has made
mine = numpy.arange(100) + 1000.0 * rank
every_other = MPI.DOUBLE.Create_vector(50, 1, 2).Commit()
file.Write_all([mine, 1, every_other])
back = numpy.zeros(50)
file.Read_at_all(0, back)
mine = mine[::2]
file.Close()
assert (back == mine).all()
"""


def test_a_program_of_mpi4py(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if not OPEN_MPI:
        folder = next((path.parent for path in Path("/usr/lib").glob("*/libmpich.so.12")), None)
        if folder is None:
            pytest.skip("absent: MPICH where Debian has it")
        # mpi4py's wheel asks for MPICH by a name that Debian's does not have.
        (tmp_path / "libmpi.so.12").symlink_to(folder / "libmpich.so.12")
    done = under_ferry(2, sys.executable, "-c", PYTHON, tmp_path / "file", LD_LIBRARY_PATH=str(tmp_path))
    assert transfers(done) == 2


# ---- tools of MPI_T --------------------------------------------------------------------------------


def test_tools_list_ferrys_variables_behind_the_librarys() -> None:
    plain = run_program(BUILD / "mpiio_tools", env=environment())
    found = run_program(BUILD / "mpiio_tools", env=environment(LD_PRELOAD=str(LIBRARY)))
    assert plain.returncode == found.returncode == 0
    own = [line for line in found.stdout.splitlines() if " ferry" in line]
    assert [line for line in found.stdout.splitlines() if line not in own] == plain.stdout.splitlines()
    for kind in ("pvar", "cvar", "category"):
        of_the_library = sum(line.startswith(f"{kind} ") for line in plain.stdout.splitlines())
        indices = [line.split()[1:3] for line in own if line.startswith(f"{kind} ")]
        assert indices == [[str(of_the_library + i)] * 2 for i in range(len(indices))]
    members = re.fullmatch(
        r"category \d+ \d+ ferry: cvars ([\d ]+) -7 -7 pvars ([\d ]+) -7 -7 categories -7 -7(?: events -7 -7)?", own[-1]
    )
    assert members is not None
    for kind, names in zip(("cvar", "pvar"), members.groups(), strict=True):
        assert names.split() == [line.split()[1] for line in own if line.startswith(f"{kind} ")]
    assert "before: not initialized\n" in plain.stdout


# transfers, by one rank each, aggregate, serial, mpiio; bytes written, read, sent in messages, handed over in
# shared memory, moved from or to the storage.
COUNTED = {
    "one transfer by independent": ["1 1 0 0 0 4000 0 0 0 4000 time requests"] * 2,
    "read by independent": ["1 1 0 0 0 0 4000 0 0 4000"] * 2,
    "one transfer by serial": [
        "1 0 0 1 0 4000 0 0 0 8000 time requests",
        "1 0 0 1 0 4000 0 4000 0 0 no time no requests",
    ],
    "read by serial": ["1 0 0 1 0 0 4000 4000 0 8000", "1 0 0 1 0 0 4000 0 0 0"],
    "one transfer by mpiio": ["1 0 0 0 1 4000 0 0 0 0 time no requests"] * 2,
    "read by mpiio": ["1 0 0 0 1 0 4000 0 0 0"] * 2,
    "opened before MPI was there, and now": ["0 1"] * 2,
    "stopped, started, again, stopped, started": ["0 1 2 2 3"] * 2,
    "read and reset, written, reset": ["done 3 0 1 done 71 done 0"] * 2,
    "all of the session": ["1 4000 1"] * 2,
    "all of them stopped": ["0 0 0"] * 2,
    "a level": ["1: no start or stop, no start or stop, no write, no write, no write"] * 2,
    "wrong sessions and handles": ["handle, session, handle, handle, done null, handle"] * 2,
    "levels": ["1 2 1"] * 2,
    "levels after closing": ["0 2 0"] * 2,
    "a name of another class": ["name"] * 2,
    "a shortened name": ["ferry 16"] * 2,
    "of one rank, and in atomic mode": ["0 0, 0 0 1"] * 2,
    "two files": ["4000 8000 12000, 1 1 0", "4000 8000 12000, 1 0 0"],
    "no file": ["handle, handle"] * 2,
    "a setting": ["'' done '1' invalid invalid '1' done"] * 2,
    "left to the library": ["1"] * 2,
    "its own variable": ["0 1"] * 2,
    "threads": ["0 wrong"] * 2,
}
# With the ranks on one node, and on two. The second rank's data goes to the first and back.
WRITER = "1 0 1 0 0 4000 0 0 0 8000 time requests"
EXCHANGED = {
    "": {
        "one transfer by aggregate": [WRITER, "1 0 1 0 0 4000 0 0 4000 0 no time no requests"],
        "read by aggregate": ["1 0 1 0 0 0 4000 0 0 8000", "1 0 1 0 0 0 4000 0 4000 0"],
        "the hints of a file, with its own, and without": ["1 65536, 2 65536, 2 4194304"] * 2,
    },
    "1": {
        "one transfer by aggregate": [WRITER, "1 0 1 0 0 4000 0 4000 0 0 no time no requests"],
        "read by aggregate": ["1 0 1 0 0 0 4000 4000 0 8000", "1 0 1 0 0 0 4000 0 0 0"],
        "the hints of a file, with its own, and without": ["1 65536, 2 65536, 2 16777216"] * 2,
    },
}


@pytest.mark.parametrize("ranks_per_node", EXCHANGED)
def test_tools_read_and_set_ferrys_variables(tmp_path: Path, ranks_per_node: str) -> None:
    nodes = {"FERRY_RANKS_PER_NODE": ranks_per_node} if ranks_per_node else {}
    done = under_ferry(2, BUILD / "mpiio_tools", tmp_path / "file", tmp_path / "other", **nodes)
    assert done.returncode == 0, done
    found = cases(done.stdout)
    assert found.pop("after MPI") == "done 1"
    if not OPEN_MPI:
        assert found.pop("after MPI_T") == "not initialized"
    seen = {name: re.findall(r"\[(.*?) ?\]", both) for name, both in found.items()}
    assert seen == COUNTED | EXCHANGED[ranks_per_node]


def test_indices_stay_where_the_library_gets_more_variables() -> None:
    done = run_program(BUILD / "mpiio_growing_library", BUILD / "libferry_mpiio_calls.so", env=environment())
    assert (done.returncode, done.stdout) == (0, "0 wrong\n"), done


# ---- hints of the environment, as ROMIO takes them --------------------------------------------------

HINTS = """# cb_nodes 7
#cb_buffer_size 1
cb_nodes 1

  cb_buffer_size\t131072\t
cb_nodes 2
romio_ds_read
romio_ds_write enable please
ind_rd_buffer_size many
nobody knows
romio_cb_write disable"""
IN_FORCE = {
    "ferry_mpiio": "enable",
    "cb_nodes": "1",
    "cb_buffer_size": "131072",
    "romio_cb_write": "disable",
    "romio_ds_read": "automatic",
    "romio_ds_write": "disable",
    "ind_rd_buffer_size": "4194304",
}
DEFAULTS = IN_FORCE | {"cb_nodes": "2", "cb_buffer_size": "4194304", "romio_cb_write": "automatic"}
HINTS_OF_THE_SYSTEM = Path("/etc/romio-hints")  # where ROMIO_HINTS does not name a file


def hints_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Returns what both ranks saw, which has to be the same."""
    assert done.returncode == 0, done
    seen = re.findall(r"^(\w+): \[(.*)\] \[(.*)\]$", done.stdout, re.MULTILINE)
    assert all(first == second for _, first, second in seen), done.stdout
    return {name: first for name, first, _ in seen}


@pytest.fixture
def hints_file(tmp_path: Path) -> Path:
    file = tmp_path / "hints"
    file.write_text(HINTS)
    return file


def test_the_file_of_hints(tmp_path: Path, hints_file: Path) -> None:
    words = [BUILD / "mpiio_hints", tmp_path / "file", "first"]
    done = under_ferry(2, *words, ROMIO_HINTS=str(hints_file))
    assert hints_of(done) == IN_FORCE
    assert transfers(done) == 1
    assert "by Ferry through 1 writers" in done.stderr
    if not OPEN_MPI:  # ROMIO understands the lines in the same way
        plain = hints_of(mpi(2, *words, ROMIO_HINTS=str(hints_file)))
        same = ("cb_nodes", "cb_buffer_size", "romio_cb_write", "romio_ds_read")
        assert {name: plain[name] for name in same} == {name: IN_FORCE[name] for name in same}


@pytest.mark.parametrize(
    ("words", "cb_nodes"),
    [
        ([], "1"),
        (["cb_nodes=2"], "2"),
        (["set:ferry_hint_cb_nodes=2"], "2"),
        (["set:ferry_hint_cb_nodes=2", "cb_nodes=1"], "1"),
    ],
    ids=["file", "info", "tool", "info and tool"],
)
def test_which_hint_comes_first(tmp_path: Path, hints_file: Path, words: list[str], cb_nodes: str) -> None:
    done = under_ferry(2, BUILD / "mpiio_hints", tmp_path / "file", *words, ROMIO_HINTS=str(hints_file))
    assert hints_of(done) == IN_FORCE | {"cb_nodes": cb_nodes}


@pytest.mark.skipif(HINTS_OF_THE_SYSTEM.exists(), reason=f"there is {HINTS_OF_THE_SYSTEM}")
@pytest.mark.parametrize("name", ["missing", "folder", "empty", "nothing", "long"])
def test_files_without_hints(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "nothing").write_text("\n\n \t\n#\ncb_nodes\n\0cb_nodes 1\n")
    (tmp_path / "long").write_text("#" * 4096 + "\ncb_nodes 1\n")
    done = under_ferry(2, BUILD / "mpiio_hints", tmp_path / "file", ROMIO_HINTS=str(tmp_path / name))
    assert hints_of(done) == DEFAULTS
    assert transfers(done) == 1


def test_a_file_of_hints_that_leaves_all_to_the_library(tmp_path: Path, hints_file: Path) -> None:
    hints_file.write_text("ferry_mpiio disable\n")
    words = [BUILD / "mpiio_hints", tmp_path / "file", "first"]
    done = under_ferry(2, *words, ROMIO_HINTS=str(hints_file))
    assert hints_of(done)["ferry_mpiio"] == "none"
    assert not re.search("^ferry", done.stderr, re.MULTILINE)  # Open MPI may say something about networks
    done = under_ferry(2, *words, "ferry_mpiio=enable", ROMIO_HINTS=str(hints_file))
    assert transfers(done) == 1


def printed(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """Returns the blocks of hints that were printed, one after another without a line between."""
    assert done.returncode == 0, done
    blocks: list[dict[str, str]] = []
    for name, value in re.findall(r"^key = (\S+) +value = (.*\S) *$", done.stdout, re.MULTILINE):
        if not blocks or name in blocks[-1]:
            blocks.append({})
        blocks[-1][name] = value
    return blocks


def test_the_print_out(tmp_path: Path, hints_file: Path) -> None:
    words = [BUILD / "mpiio_hints", tmp_path / "file", "first"]
    variables = {"ROMIO_HINTS": str(hints_file), "ROMIO_PRINT_HINTS": "1"}
    plain = printed(mpi(2, *words, **variables))
    done = under_ferry(2, *words, **variables)
    found = printed(done)
    assert found[:-1] == plain  # the library's, of its handle
    assert found[-1].items() >= IN_FORCE.items()
    assert "key = cb_nodes                  value = 1         \n" in done.stdout
    assert printed(under_ferry(2, *words, "ferry_mpiio=disable", **variables)) == plain
    assert printed(under_ferry(2, *words, ROMIO_HINTS=str(hints_file))) == []


# ---- programs and libraries that it does not suit --------------------------------------------------

OTHER_LIBRARY = """
#include <stdio.h>
int PMPI_File_write_at_all(void* file, long offset, const void* data, int count, void* type, void* status) {
  printf("%p %ld %s %d %p %p\\n", file, offset, (const char*)data, count, type, status);
  return 77;
}
int PMPI_File_open(void) { return 0; }
int MPI_File_write_at_all(void* f, long o, const void* d, int c, void* t, void* s) {
  return PMPI_File_write_at_all(f, o, d, c, t, s);
}
int PMPI_File_iread_at_all(void* file, long offset, void* data, int count, void* type, int* request) {
  printf("iread_at_all %d\\n", count);
  *request = 5;
  return 0;
}
int PMPI_File_iread_all(void* file, void* data, int count, void* type, int* request) {
  printf("iread_all %d\\n", count);
  *request = 6;
  return 0;
}
int PMPI_Wait(int* request, int* status) {
  printf("wait %d\\n", *request);
  *request = *status = 0;
  return 0;
}
int PMPI_File_write_ordered_begin(void* file, const void* data, int count, void* type) {
  printf("write_ordered_begin %s %d\\n", (const char*)data, count);
  return 0;
}
int PMPI_File_write_ordered_end(void* file, const void* data, int* status) {
  printf("write_ordered_end %p %s %d\\n", file, (const char*)data, *status = 0);
  return 0;
}
int PMPI_File_iwrite(void* file, const void* data, int count, void* type, int* request) {
  printf("iwrite\\n");
  return 0;
}
"""
OTHER_PROGRAM = """
int MPI_File_write_at_all(void*, long, const void*, int, void*, void*);
int main(void) {
  return MPI_File_write_at_all((void*)0x7fffffffffff, -1L << 40, "data", -3, (void*)0x123456789abc, (void*)1);
}
"""


BEGINNING_PROGRAM = """
#include <stdio.h>
#include <dlfcn.h>
typedef int Read(void*, long, void*, long, void*, int*);
typedef int ReadOn(void*, void*, long, void*, int*);
typedef int Begin(void*, const void*, long, void*);
typedef int Write(void*, const void*, long, void*, int*);
int main(void) {
  Read* read = (Read*)dlsym(RTLD_DEFAULT, "MPI_File_iread_at_all_c");
  Begin* begin = (Begin*)dlsym(RTLD_DEFAULT, "MPI_File_write_ordered_begin_c");
  Write* write = (Write*)dlsym(RTLD_DEFAULT, "MPI_File_iwrite_c");
  int request = 0;
  int result = read((void*)1, 0, "data", 3, (void*)2, &request);
  printf("%d %d\\n", result, request);
  result = read((void*)1, 0, "data", 1L << 31, (void*)2, &request);
  printf("%d %d\\n", result, request);
  ReadOn* read_on = (ReadOn*)dlsym(RTLD_DEFAULT, "MPI_File_iread_all_c");
  result = read_on((void*)1, "data", 1L << 31, (void*)2, &request);
  printf("%d %d\\n", result, request);
  printf("%d\\n", begin((void*)1, "data", 3, (void*)2));
  printf("%d\\n", begin((void*)1, "data", 1L << 31, (void*)2));
  printf("%d\\n", write((void*)1, "data", 1L << 31, (void*)2, &request));
}
"""


NEWER_PROGRAM = """
#include <stdio.h>
#include <dlfcn.h>
typedef int Write(void*, long, const void*, long, void*, void*);
typedef int Events(int, int*);
int main(void) {
  Write* write = (Write*)dlsym(RTLD_DEFAULT, "MPI_File_write_at_all_c");
  Events* events = (Events*)dlsym(RTLD_DEFAULT, "MPI_T_category_get_num_events");
  int number = -1;
  const int written = write((void*)1, 1L << 40, "data", 0x7fffffff, (void*)2, (void*)3);
  const int refused = write((void*)1, 0, "data", 0x80000000L, (void*)2, (void*)3);
  const int negative = write((void*)1, 8, "data", -1L << 32, (void*)2, (void*)3);
  printf("%d %d %d\\n", written, refused, negative);
  const int found = events(0, &number);
  printf("%d %d\\n", found, number);
}
"""


def program_of_another_library(folder: Path, source: str) -> Path:
    compiler = os.environ.get("CC", "cc")
    library, program = folder / "libmpi_other.so", folder / "program"
    compile_c = [compiler, "-x", "c", "-"]
    subprocess.run([*compile_c, "-shared", "-fPIC", "-o", str(library)], input=OTHER_LIBRARY, text=True, check=True)
    linking = [f"-L{folder}", "-Wl,--no-as-needed", "-lmpi_other", f"-Wl,-rpath,{folder}"]
    subprocess.run([*compile_c, "-o", str(program), *linking], input=source, text=True, check=True)
    return program


def test_the_calls_of_another_mpi_library_go_there(tmp_path: Path) -> None:
    program = program_of_another_library(tmp_path, OTHER_PROGRAM)
    plain = run_program(program, env=environment())
    done = run_program(program, env=environment(LD_PRELOAD=str(LIBRARY)))
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.returncode == 77
    assert done.stderr.count("\n") == 1
    assert "this program's MPI library is not " in done.stderr
    assert "the MPI library does all MPI-IO itself" in done.stderr


def test_functions_with_large_counts_do_what_a_library_without_them_can(tmp_path: Path) -> None:
    program = program_of_another_library(tmp_path, NEWER_PROGRAM)
    done = run_program(program, env=environment(LD_PRELOAD=str(LIBRARY)))
    calls, results = done.stdout.splitlines()[:-2], done.stdout.splitlines()[-2:]
    # What is refused is a call with nothing: other ranks may wait in it.
    assert calls == ["0x1 1099511627776 data 2147483647 0x2 0x3", "0x1 0 data 0 0x2 0x3", "0x1 8 data 0 0x2 0x3"]
    assert results == ["77 2 2", "0 0"], done.stderr


def test_what_is_refused_where_it_begins_ends_for_the_other_ranks(tmp_path: Path) -> None:
    program = program_of_another_library(tmp_path, BEGINNING_PROGRAM)
    done = run_program(program, env=environment(LD_PRELOAD=str(LIBRARY)))
    reads = ["iread_at_all 3", "0 5", "iread_at_all 0", "wait 5", "2 0", "iread_all 0", "wait 6", "2 0"]
    writes = ["write_ordered_begin data 3", "0", "write_ordered_begin data 0", "write_ordered_end 0x1 data 0", "2"]
    assert done.stdout.splitlines() == [*reads, *writes, "2"], done.stderr


def test_the_mpi_library_does_it_where_ferrys_part_is_missing(tmp_path: Path) -> None:
    shutil.copy(LIBRARY, tmp_path)
    done = mpi(
        2, BUILD / "mpiio_random_calls", tmp_path / "file", SEED, 5, LD_PRELOAD=str(tmp_path / LIBRARY.name)
    )  # fmt: skip
    plain = mpi(2, BUILD / "mpiio_random_calls", tmp_path / "plain", SEED, 5)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert done.stderr.count("libferry_mpiio_calls.so: cannot open shared object file") == 2  # one for each rank


def test_programs_without_mpi_are_not_disturbed() -> None:
    done = run_program("sh", "-c", "echo here", env=environment(LD_PRELOAD=str(LIBRARY)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\n", "")


@pytest.mark.parametrize("path", ["/dev/null", "/proc/self/status"])
def test_what_is_no_regular_file_is_left_to_the_library(tmp_path: Path, path: str) -> None:
    program = (
        "#include <mpi.h>\nint main(int n, char** v) { MPI_File f; MPI_Init(&n, &v); int bad = MPI_File_open("
        f'MPI_COMM_WORLD, "{path}", MPI_MODE_RDONLY, MPI_INFO_NULL, &f); char c; '
        "if (!bad) { MPI_File_read_at_all(f, 0, &c, 1, MPI_BYTE, MPI_STATUS_IGNORE); bad = MPI_File_close(&f); }"
        " MPI_Finalize(); return bad != 0; }"
    )
    compiler = compiler_of("cc")
    binary = tmp_path / "p"
    subprocess.run([compiler, "-x", "c", "-", "-o", str(binary)], input=program, text=True, check=True)
    assert mpi(2, binary).returncode == 0
    assert transfers(under_ferry(2, binary)) == 0


# ---- the command, and files without a mount --------------------------------------------------------


# Counts a function as Darshan does: it calls the one of the library that comes behind it.
TOOL = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int calls;
int MPI_File_write_at_all(MPI_File file, MPI_Offset offset, const void* data, int count, MPI_Datatype type,
                          MPI_Status* status) {
  int (*next)(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Status*);
  *(void**)&next = dlsym(RTLD_NEXT, "PMPI_File_write_at_all");
  ++calls;
  return next(file, offset, data, count, type, status);
}
__attribute__((destructor)) static void tell(void) {
  if (calls > 0) fprintf(stderr, "the tool: %d calls\\n", calls);
}
"""
WRITING_PROGRAM = """
#include <mpi.h>
int main(int n, char** v) {
  MPI_File f;
  MPI_Init(&n, &v);
  int bad = MPI_File_open(MPI_COMM_WORLD, v[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f);
  for (int i = 0; !bad && i < 3; ++i) bad = MPI_File_write_at_all(f, i, "data", 1, MPI_BYTE, MPI_STATUS_IGNORE);
  if (!bad) bad = MPI_File_close(&f);
  MPI_Finalize();
  return bad != 0;
}
"""


@pytest.mark.parametrize("and_the_library", [False, True])
def test_a_preloaded_tool_counts_what_ferry_carries_out(node: Node, tmp_path: Path, and_the_library: bool) -> None:
    compile_c = [compiler_of("cc"), "-x", "c", "-"]
    tool, program = tmp_path / "tool.so", tmp_path / "program"
    subprocess.run([*compile_c, "-shared", "-fPIC", "-o", str(tool)], input=TOOL, text=True, check=True)
    subprocess.run([*compile_c, "-o", str(program)], input=WRITING_PROGRAM, text=True, check=True)
    linked = re.findall(r"=> (/\S*/libmpi(?:ch)?\.so\S*)", run_program("ldd", program).stdout)
    assert linked
    node.command.environment["LD_PRELOAD"] = ":".join([str(tool), *linked[: int(and_the_library)]])
    done = node.command.run("run", "--mpi-io", "--summary", "--", MPIEXEC, "-n", 2, program, node.folder / "file")
    assert transfers(done) == 3
    assert done.stderr.count("the tool: 3 calls\n") == 2


def test_the_command(node: Node, tmp_path: Path) -> None:
    words = [MPIEXEC, "-n", 2, BUILD / "mpiio_random_calls", node.folder / "file", SEED, 40]
    summary = tmp_path / "summary"
    shown = node.command.succeeds("run", "--mpi-io", f"--summary={summary}", "--", *words)
    plain = mpi(2, BUILD / "mpiio_random_calls", tmp_path / "plain", SEED, 40)
    assert shown == plain.stdout
    assert re.search(r"/file: [1-9]\d* collective transfers, \d+ bytes of this rank, by Ferry", summary.read_text())
    # Without the option, the MPI library does all.
    summary.unlink()
    node.command.succeeds("run", f"--summary={summary}", "--", *words)
    assert not summary.exists() or "collective transfers" not in summary.read_text()


def test_the_command_explains(node: Node) -> None:
    done = node.command.run("run", "--mpi-io", "--explain", "--", "true")
    assert "collective MPI-IO: by Ferry; all other MPI-IO by the MPI library" in done.stderr


def test_the_command_says_that_it_is_not_built(node: Node, tmp_path: Path) -> None:
    for name in ("ferryd", "libferry_run.so"):
        (tmp_path / name).symlink_to(BUILD / name)
    node.command.environment["FERRY_BUILD_DIR"] = str(tmp_path)
    node.command.fails("run", "--mpi-io", "--", "true", says="where an MPI library of MPI 3.1 is installed")


@pytest.mark.parametrize(
    ("package", "says"),
    [
        ("ferry", "use one that `make wheels` builds in a checkout of Ferry"),
        ("lib/ferry/python/ferry", "install Debian's package libferry-mpi0"),
    ],
)
def test_an_installed_command_without_it_says_where_to_get_it(tmp_path: Path, package: str, says: str) -> None:
    folder = tmp_path / package
    shutil.copytree(Path(programs.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    libraries, facts = folder, tmp_path / "share" / "ferry" / "ferry-build.txt"
    if package != "ferry":
        libraries = tmp_path / "lib" / "ferry"
        facts.parent.mkdir(parents=True)
        facts.touch()
    (libraries / "libferry_run.so").touch()
    variables = {name: value for name, value in os.environ.items() if name != "FERRY_BUILD_DIR"}
    words = [sys.executable, "-m", "ferry", "run", "--mpi-io", "--", "true"]
    done = run_program(*words, env={**variables, "PYTHONPATH": str(folder.parent)}, cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1 and says in done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_calls_at_random_on_a_server(server: Server, tmp_path: Path, mode: str) -> None:
    words = [SEED, CALLS, mode]
    plain = mpi(3, BUILD / "mpiio_random_calls", tmp_path / "plain", *words)
    done = under_ferry(3, BUILD / "mpiio_random_calls", server.named("file"), *words)
    assert transfers(done) > 0, done.stderr
    assert done.stdout == plain.stdout, f"seed {SEED}"
    assert (server.folder / "file").read_bytes() == (tmp_path / "plain").read_bytes(), f"seed {SEED}"


# The plain run converts what it moves itself, and picks out of whole ranges what overlapping views show.
@pytest.mark.parametrize("mode", MODES)
def test_representations_at_random_on_a_server(server: Server, tmp_path: Path, mode: str) -> None:
    words = [SEED, CALLS // 2, mode, "representations"]
    plain = mpi(2, BUILD / "mpiio_random_calls", tmp_path / "plain", *words, "by-hand")
    assert plain.returncode == 0, plain
    done = under_ferry(2, BUILD / "mpiio_random_calls", server.named("file"), *words)
    assert transfers(done) > 0, done.stderr
    assert done.stdout == plain.stdout, f"seed {SEED}"
    assert (server.folder / "file").read_bytes() == (tmp_path / "plain").read_bytes(), f"seed {SEED}"


@pytest.mark.parametrize(("ranks", "ranks_per_node", "mode"), LAYOUTS[:1] if OPEN_MPI else LAYOUTS)
def test_what_a_rank_writes_others_read_on_a_server(server: Server, ranks: int, ranks_per_node: int, mode: str) -> None:
    words = [BUILD / "mpiio_consistent", server.named("file"), SEED, STEPS, mode]
    done = under_ferry(ranks, *words, FERRY_RANKS_PER_NODE=str(ranks_per_node))
    assert done.stdout == "seen:" + ranks * " [right]" + "\n", f"seed {SEED}"
    assert transfers(done) > 0


# How a program may wait for a transfer that is under way by itself.
ENDINGS = ["Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome", "Request_get_status"]
BEGUN = {
    **dict.fromkeys((f"MPI_{ending}" for ending in ENDINGS), "written all, read all"),
    "freed": "written",
    "four at the file pointer": "right",
    "a blocking call behind one": "right",
    "a negative offset": "argument",
    "in atomic mode": "right",
    "closing": "done",
    "what it wrote before": "right",
}


@pytest.mark.parametrize("mode", MODES[:1] if OPEN_MPI else MODES)
def test_transfers_of_one_rank_begin_when_they_are_started(server: Server, mode: str) -> None:
    done = under_ferry(2, BUILD / "mpiio_begun", server.named("file"), server.folder / "file", mode)
    assert done.returncode == 0, done
    assert cases(done.stdout) == {name: f"[{seen}] [{seen}]" for name, seen in BEGUN.items()}


@pytest.mark.parametrize("mode", MODES[:1] if OPEN_MPI else MODES)
def test_transfers_of_one_rank_do_not_wait_for_a_server(tmp_path: Path, mode: str) -> None:
    variables = {**mock_of_pvfs2(tmp_path), "FERRY_MOCK_PVFS2_HANGS_WHILE": str(tmp_path / "hangs")}
    words = [BUILD / "mpiio_begun", "pvfs2:/mock/file", tmp_path / "served" / "file", mode]
    done = under_ferry(2, *words, **variables)
    assert cases(done.stdout)["of a server that hangs"] == "[right] [right]", done


ODD_VIEWS = {
    "reading them alone": "[right] [right]",
    "reading what overlaps": "[done 12 to 3] [done 12 to 3]",
    "and on from there": "[done 20 to 8] [done 20 to 8]",
    "with what overlaps twice": "[right] [right]",
}


@pytest.mark.parametrize("mode", MODES[:1] if OPEN_MPI else MODES)
def test_edges_on_a_server(server: Server, tmp_path: Path, mode: str) -> None:
    here = cases(under_ferry(2, BUILD / "mpiio_edges", tmp_path / "file", mode).stdout)
    there = under_ferry(2, BUILD / "mpiio_edges", server.named("file"), mode)
    assert transfers(there) > 0
    found = cases(there.stdout)
    assert found.pop("seek_shared before the file") == "[argument] [argument]"
    assert found.pop("nonblocking ones that one rank refuses") == "[errors, handled 5] [errors, handled 5]"
    assert found.pop("numbers in a view of bytes") == "[done] [done]"
    assert found.pop("a complex number") == "[two] [two]"
    if mode == "threads":
        assert found.pop("beside calls that fail") == "[all] [all]"
    assert found["a negative count beside what is left"] == "[unsupported] [unsupported]"
    assert found["seek_shared to the end"] == "[right] [right]"
    assert found["writing memory backwards"] == "[unsupported] [unsupported]"
    differ = {"writing memory backwards", "what is there then", "a negative count beside what is left"}
    assert {name: found[name] for name in ODD_VIEWS} == ODD_VIEWS
    if OPEN_MPI:  # its OMPIO forgets there where the view begins
        differ.add("seek_shared to the end")
        # and allows in a sequence what the standard does not.
        assert (found["write_at in it"], found["seek in it"]) == ("[unsupported] [unsupported]",) * 2
        differ |= {"write_at in it", "seek in it"}
        # and takes views that begin before the file.
        assert found["a view before the file"] == "[an error] [an error]"
        assert found["in the view before"] == "[right] [right]"
        assert found["that view"] == "[18000 native] [18000 native]"
        differ |= {"a view before the file", "in the view before", "that view"}
    else:
        differ |= ODD_VIEWS.keys()  # MPICH has wrong positions in views that overlap, and in copies that interleave
        # and its nonblocking and split transfers forget external32.
        assert found["its second half"] == "[right] [right]"
        differ.add("its second half")
    assert {name for name in found if found[name] != here[name]} == differ
    assert here.keys() == found.keys()
    # MPI_Finalize closes a file that stayed open.
    assert (server.folder / "file").read_bytes() == b"ooss"
    assert re.search(r"^ferry-run: .*: 1 collective transfers", there.stderr, re.MULTILINE), there.stderr


# What MPICH 4.0 has otherwise than MPI states. It ends the program where it meets pairs, structures and MPI_WCHAR.
WRONG_IN_MPICH = {"MPI_LONG", "MPI_UNSIGNED_LONG", "MPI_DOUBLE_COMPLEX"}
IN_EXTERNAL32 = {
    "structures at random": "right",
    "every other long": "16 24 28",
    "their extent": "20",
    "longs before the end": "3 -1",
    "the view's name": "external32",
}


def test_external32_on_a_server(server: Server, tmp_path: Path) -> None:
    done = under_ferry(2, BUILD / "mpiio_external32", server.named("file"), SEED)
    assert transfers(done) > 0, done.stderr
    found = cases(done.stdout)
    wrong = {name: seen for name, seen in found.items() if name not in IN_EXTERNAL32 and seen != "[right] [right]"}
    assert wrong == {}, f"seed {SEED}"
    assert {name: found[name] for name in IN_EXTERNAL32} == {
        name: f"[{seen}] [{seen}]" for name, seen in IN_EXTERNAL32.items()
    }, f"seed {SEED}"
    if OPEN_MPI:
        return
    plain = cases(mpi(2, BUILD / "mpiio_external32", tmp_path / "plain").stdout)
    assert len(plain) == 13
    assert {name for name in plain if found[name] != plain[name]} == WRONG_IN_MPICH


ON_GPU = {
    "memory": "there",
    "writing ints": "done",
    "reading ints": "done",
    "what was read": "right",
    "writing longs": "unsupported",
    "reading longs": "unsupported",
    "by their address": "unsupported",
    "reading in two calls": "unsupported",
    "what is there": "right",
    "what the file has": "right",
    "managed memory": "done done right",
}


def test_memory_of_a_gpu_is_not_converted_by_the_host(server: Server) -> None:
    driver = BUILD / "libferry_mock_cuda.so"
    words = [BUILD / "mpiio_gpu_memory", server.named("file"), driver]
    done = under_ferry(2, *words, FERRY_CUDA_LIBRARY=str(driver))
    assert transfers(done) > 0, done.stderr
    found = cases(done.stdout)
    assert found.pop("alone") == "[done] [unsupported]"  # a call of each rank
    assert found == {name: f"[{seen}] [{seen}]" for name, seen in ON_GPU.items()}


REGISTERED = {
    "registering": "done",
    "twice": "duplicate",
    "as native": "duplicate",
    "as external32": "duplicate",
    "a long name": "argument",
    "with large counts": "done",
    "without functions": "done",
    "without functions that it needs": "done",
    "the view": "done",
    "its name and the extent of four": "right 8",
    "writing": "done 8, done 8, done 8, done 8",
    "the position, and the place of the sixth": "8 18",
    "the size": "138",
    "reading": "done 8, done 8, done 8, done 8",
    "what was read": "right",
    "reading over the end": "done 2",
    "some reading nothing": "done",
    "one reading what it has not": "conversion",
    "the bytes in the file": "right",
    "writing much": "done 800000 in pieces",
    "reading much": "done 800000 in pieces",
    "what that read": "right",
    "positions": "right",
    "a function that fails to write on one rank": "conversion",
    "one that fails to read": "conversion",
    "in the second half": "conversion",
    "the next": "done",
    "a datatype that it has not": "conversion",
    "sizes that need a function": "conversion",
    "a name that is not registered": "unsupported",
    "writing without functions": "done 8",
    "reading so": "done 8",
    "the same without it": "right",
}


def test_representations_that_a_program_registers(server: Server) -> None:
    done = under_ferry(2, BUILD / "mpiio_datareps", server.named("file"))
    assert transfers(done) > 0, done.stderr
    found = cases(done.stdout)
    assert found.pop("alone") == "[conversion] [done]"  # a call of each rank
    displaced = {name: seen for name, seen in found.items() if seen != f"[{REGISTERED[name]}] [{REGISTERED[name]}]"}
    # The second rank's view begins 8 bytes later.
    assert displaced == {"the position, and the place of the sixth": "[8 18] [8 26]"}
    assert found.keys() == REGISTERED.keys()
    lines = done.stdout.splitlines()
    with_both = lines[lines.index(next(line for line in lines if line.startswith("the view:"))) :]
    assert sum(line.startswith("writing: ") for line in with_both) == (1 if OPEN_MPI else 2)


# Numbers have two bytes in the file, with the state added. `{module}`: mpif.h has no module of its own.
REGISTERING = """
{callbacks}
program p
  {module}
  implicit none
  {include}
  integer :: error, kind, rank, i
  integer :: out(6), in(6), failed(2)
  integer(kind=2) :: plain(6)
  integer(kind=mpi_address_kind) :: state
  integer(kind=mpi_offset_kind) :: begin
  {handle} :: file
  {external}
  call mpi_init(error)
  call mpi_comm_rank(mpi_comm_world, rank, error)
  state = 100
  call mpi_register_datarep('short   ', from_short, to_short, two, state, error)
  if (error /= mpi_success) print *, 'not registered'
  state = 7
  call mpi_register_datarep('failing', from_short, to_short, two, state, error)
  state = 0
  call mpi_register_datarep('same', mpi_conversion_fn_null, mpi_conversion_fn_null, four, state, error)
  call mpi_file_open(mpi_comm_world, &
    {uri}, &
    mpi_mode_create + mpi_mode_rdwr, mpi_info_null, file, error)
  call mpi_register_datarep('short', from_short, to_short, two, state, error)
  call mpi_error_class(error, kind, error)
  if (kind /= mpi_err_dup_datarep) print *, 'registered twice'

  begin = 12 * rank
  call mpi_file_set_view(file, begin, mpi_integer, mpi_integer, 'short', mpi_info_null, error)
  if (error /= mpi_success) print *, 'no view'
  out = [(1000 * rank + i, i = 1, 6)]
  begin = 0
  call mpi_file_write_at_all(file, begin, out, 6, mpi_integer, mpi_status_ignore, error)
  in = -1
  call mpi_file_read_at_all(file, begin, in, 6, mpi_integer, mpi_status_ignore, error)
  if (any(in /= out)) print *, 'wrong', in
  call mpi_file_set_view(file, begin, mpi_byte, mpi_byte, 'native', mpi_info_null, error)
  begin = 12 * rank
  call mpi_file_read_at(file, begin, plain, 12, mpi_byte, mpi_status_ignore, error)
  if (any(plain /= out + 100)) print *, 'wrong in the file', plain

  begin = 0
  call mpi_file_set_view(file, begin, mpi_integer, mpi_integer, 'failing', mpi_info_null, error)
  call mpi_file_write_at_all(file, begin, out, 6, mpi_integer, mpi_status_ignore, failed(1))
  call mpi_file_read_at_all(file, begin, in, 6, mpi_integer, mpi_status_ignore, failed(2))
  do i = 1, 2
    call mpi_error_class(failed(i), kind, error)
    if (kind /= mpi_err_conversion) print *, 'no error', failed(i)
  end do
  call mpi_file_set_view(file, begin, mpi_double_precision, mpi_double_precision, 'short', mpi_info_null, error)
  call mpi_error_class(error, kind, error)
  if (kind /= mpi_err_conversion) print *, 'a datatype that it has not', kind

  call mpi_file_sync(file, error)
  call mpi_barrier(mpi_comm_world, error)
  call mpi_file_sync(file, error)
  begin = 0
  call mpi_file_set_view(file, begin, mpi_integer, mpi_integer, 'same', mpi_info_null, error)
  begin = 6 * rank
  call mpi_file_write_at_all(file, begin, out, 6, mpi_integer, mpi_status_ignore, error)
  call mpi_file_read_at_all(file, begin, in, 6, mpi_integer, mpi_status_ignore, error)
  if (error /= mpi_success .or. any(in /= out)) print *, 'wrong as it is', in
  call mpi_file_close(file, error)
  print *, 'done'
  call mpi_finalize(error)
end program
"""
# With references, of mpif.h and mpi; and in a module with C's pointers, of mpi_f08.
REFERENCES = """
subroutine to_short(memory, datatype, count, data, position, state, error)
  {module}
  implicit none
  {include}
  integer :: memory(*), datatype, count, error, i
  integer(kind=2) :: data(*)
  integer(kind=mpi_offset_kind) :: position
  integer(kind=mpi_address_kind) :: state
  do i = 1, count
    data(i) = int(memory(position + i) + state, 2)
  end do
  error = mpi_success
  if (state == 7 .or. datatype /= mpi_integer) error = 5
end subroutine
subroutine from_short(memory, datatype, count, data, position, state, error)
  {module}
  implicit none
  {include}
  integer :: memory(*), datatype, count, error, i
  integer(kind=2) :: data(*)
  integer(kind=mpi_offset_kind) :: position
  integer(kind=mpi_address_kind) :: state
  do i = 1, count
    memory(position + i) = data(i) - int(state)
  end do
  error = mpi_success
  if (state == 7 .or. datatype /= mpi_integer) error = 5
end subroutine
subroutine two(datatype, bytes, state, error)
  {module}
  implicit none
  {include}
  integer :: datatype, error
  integer(kind=mpi_address_kind) :: bytes, state
  bytes = 2
  error = mpi_success
  if (datatype /= mpi_integer) error = 5
end subroutine
subroutine four(datatype, bytes, state, error)
  {module}
  implicit none
  {include}
  integer :: datatype, error
  integer(kind=mpi_address_kind) :: bytes, state
  bytes = 4
  error = mpi_success
end subroutine
"""
POINTERS = """
module conversions
  use mpi_f08
  use iso_c_binding
contains
subroutine to_short(memory, datatype, count, data, position, state, error)
  type(c_ptr), value :: memory, data
  type(mpi_datatype) :: datatype
  integer :: count, error
  integer(kind=mpi_offset_kind) :: position
  integer(kind=mpi_address_kind) :: state
  integer, pointer :: numbers(:)
  integer(kind=2), pointer :: short(:)
  call c_f_pointer(memory, numbers, [position + count])
  call c_f_pointer(data, short, [count])
  short = int(numbers(position + 1:) + state, 2)
  error = mpi_success
  if (state == 7 .or. datatype /= mpi_integer) error = 5
end subroutine
subroutine from_short(memory, datatype, count, data, position, state, error)
  type(c_ptr), value :: memory, data
  type(mpi_datatype) :: datatype
  integer :: count, error
  integer(kind=mpi_offset_kind) :: position
  integer(kind=mpi_address_kind) :: state
  integer, pointer :: numbers(:)
  integer(kind=2), pointer :: short(:)
  call c_f_pointer(memory, numbers, [position + count])
  call c_f_pointer(data, short, [count])
  numbers(position + 1:) = short - int(state)
  error = mpi_success
  if (state == 7 .or. datatype /= mpi_integer) error = 5
end subroutine
subroutine two(datatype, bytes, state, error)
  type(mpi_datatype) :: datatype
  integer :: error
  integer(kind=mpi_address_kind) :: bytes, state
  bytes = 2
  error = mpi_success
  if (datatype /= mpi_integer) error = 5
end subroutine
subroutine four(datatype, bytes, state, error)
  type(mpi_datatype) :: datatype
  integer :: error
  integer(kind=mpi_address_kind) :: bytes, state
  bytes = 4
  error = mpi_success
end subroutine
end module
"""


@pytest.mark.parametrize("module", ["mpif.h", "mpi", "mpi_f08"])
def test_representations_that_a_program_registers_in_fortran(server: Server, tmp_path: Path, module: str) -> None:
    compiler = compiler_of("fort")
    parts = {"module": f"use {module}", "include": "", "handle": "integer", "external": "external :: to_short"}
    parts["external"] += ", from_short, two, four"
    if module == "mpif.h":
        parts |= {"module": "", "include": "include 'mpif.h'"}
    elif module == "mpi" and not OPEN_MPI:  # MPICH's does not have it
        parts["external"] += ", mpi_conversion_fn_null"
    elif module == "mpi_f08":
        parts |= {"module": "use mpi_f08\n  use conversions", "handle": "type(mpi_file)", "external": ""}
    # A line has at most 132 characters, and URIs are long.
    named = server.named("file")
    uri = " // &\n    ".join(f"'{named[at : at + 80]}'" for at in range(0, len(named), 80))
    callbacks = POINTERS if module == "mpi_f08" else REFERENCES.format(**parts)
    (tmp_path / "p.f90").write_text(REGISTERING.format(callbacks=callbacks, uri=uri, **parts))
    words = [compiler, "-w", "-fallow-argument-mismatch", "p.f90", "-o", "p", f"-L{folder_of_the_mpi_library()}"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = under_ferry(2, tmp_path / "p")
    assert (done.returncode, done.stdout.split()) == (0, ["done"] * 2), done
    assert transfers(done) > 0


def test_hints_and_variables_on_a_server(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hints").write_text("cb_nodes 1\n")
    variables = {"ROMIO_HINTS": str(tmp_path / "hints"), "ROMIO_PRINT_HINTS": ""}
    done = under_ferry(2, BUILD / "mpiio_hints", server.named("file"), "first", **variables)
    assert hints_of(done)["cb_nodes"] == "1"
    assert transfers(done) == 1
    assert printed(done)[-1].items() >= {"cb_nodes": "1", "ferry_mpiio": "enable"}.items()
    done = under_ferry(2, BUILD / "mpiio_tools", server.named("first"), server.named("second"))
    assert done.returncode == 0, done
    found = cases(done.stdout)
    assert found["two files"] == "[4000 8000 12000, 1 1 0] [4000 8000 12000, 1 0 0]"
    assert found["of one rank, and in atomic mode"] == "[1 4000, 1 1 0] [1 4000, 1 1 0]"


@pytest.mark.skipif(not OPEN_MPI, reason="MPICH asks requests whether they are done")
def test_nonblocking_collective_transfers_on_a_server_need_threads(server: Server) -> None:
    found = cases(under_ferry(2, BUILD / "mpiio_edges", server.named("file")).stdout)
    assert found["iwrite_at_all"] == "[unsupported] [unsupported]"
    assert found["closing it"] == "[done] [done]"


# Rank 0 waits for a transfer that rank 1 begins when the other has slept, or after a while.
WAITING_PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static const char* has_slept;
static pthread_t waiting;
static int waits, naps;
int nanosleep(const struct timespec* time, struct timespec* left) {
  int (*next)(const struct timespec*, struct timespec*);
  *(void**)&next = dlsym(RTLD_NEXT, "nanosleep");
  if (waits && pthread_equal(waiting, pthread_self()) && ++naps == 1) close(creat(has_slept, 0600));
  return next(time, left);
}
int main(int n, char** v) {
  MPI_File f;
  MPI_Request request;
  int level, rank, bad, tries;
  MPI_Init_thread(&n, &v, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  has_slept = v[2];
  bad = MPI_File_open(MPI_COMM_WORLD, v[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f);
  for (tries = 0; !bad && rank == 1 && access(has_slept, F_OK) != 0 && tries < 2000; ++tries) usleep(10000);
  if (!bad) bad = MPI_File_iwrite_at_all(f, rank, "data", 1, MPI_BYTE, &request);
  waiting = pthread_self();
  waits = 1;
  if (!bad) bad = MPI_Wait(&request, MPI_STATUS_IGNORE);
  waits = 0;
  if (!bad) bad = MPI_File_close(&f);
  if (rank == 0) printf("%s\\n", naps > 0 ? "slept" : "polled");
  MPI_Finalize();
  return bad != 0;
}
"""


@pytest.mark.skipif(OPEN_MPI, reason="absent: Open MPI does not ask a request whether it is done")
def test_waiting_for_a_thread_leaves_it_the_cpu(server: Server, tmp_path: Path) -> None:
    program = tmp_path / "program"
    words = [compiler_of("cc"), "-x", "c", "-", "-o", str(program), "-rdynamic", "-pthread", "-ldl"]
    subprocess.run(words, input=WAITING_PROGRAM, text=True, check=True)
    done = under_ferry(2, program, server.named("file"), tmp_path / "has_slept")
    assert (done.returncode, done.stdout) == (0, "slept\n"), done.stderr


# Calls while the server fails, and those that may need only a metadata server that works. A sync is one of these:
# libcephfs writes through where several clients have a file open, and once it has given up its late writes (after
# twice the timeout) nothing is left to sync.
IN_VAIN = ("read_at_all", "iwrite_at_all", "write_at_all_begin", "write_ordered")
OF_METADATA = ("sync", "get_size", "open")


def of_metadata(found: dict[str, str]) -> set[str]:
    """What ranks saw. Each of them asks for the size by itself, so their texts may differ."""
    return {found[name].replace(" by another text", "") if name == "get_size" else found[name] for name in OF_METADATA}


@pytest.mark.parametrize("server", ["NFS"], indirect=True)
@pytest.mark.parametrize("fault", ["hangs", "ends"])
def test_a_server_that_fails_in_a_transfer(server: Server, tmp_path: Path, fault: str) -> None:
    """Every call is the same error on all ranks, and once the server works again the job goes on."""
    nfs_port = int(re.search(r"nfsport=(\d+)", server.uri)[1])  # type: ignore[index]
    with Relay(nfs_port) as relay:
        found = while_a_server_fails(
            server.named("file").replace(f"nfsport={nfs_port}", f"nfsport={relay.port}"),
            3,
            tmp_path,
            relay.hang if fault == "hangs" else relay.end,
            relay.go_on if fault == "hangs" else relay.begin,
        )
    assert of_metadata(found) == {ON_ALL_RANKS["I/O"]}, found


@pytest.mark.parametrize("server", ["CEPH"], indirect=True)
@pytest.mark.parametrize("fault", ["freeze", "kill"])
def test_osds_that_fail_in_a_transfer(server: Server, tmp_path: Path, fault: str) -> None:
    """The same, but the MDS goes on: what asks only that may be answered."""
    rig = os.environ.get("FERRY_TEST_RIG", "")
    if not rig or "FERRY_TEST_CEPH_DISK" not in os.environ:
        pytest.skip("absent: FERRY_TEST_RIG, and a cluster that stores in files (FERRY_TEST_CEPH_DISK tells)")

    def on_rig(*words: str) -> None:
        assert run_program(rig, *words).returncode == 0, words

    try:
        found = while_a_server_fails(
            server.named("file"),
            5,  # the cluster on disk may be slow
            tmp_path,
            lambda: on_rig(fault, "ceph", *(f"osd.{number}" for number in range(4))),
            lambda: on_rig("thaw" if fault == "freeze" else "up", "ceph"),
        )
    finally:  # the folder is removed through them
        on_rig("thaw", "ceph")
        on_rig("up", "ceph")
    assert of_metadata(found) <= {ON_ALL_RANKS["I/O"], ON_ALL_RANKS["done"]}, found
    assert found.get("closing that", ON_ALL_RANKS["done"]) == ON_ALL_RANKS["done"], found


ON_ALL_RANKS = {seen: " ".join([f"[{seen}]"] * 3) for seen in ("I/O", "done", "done right")}


def while_a_server_fails(
    uri: str, timeout_s: int, folder: Path, fail: Callable[[], None], mend: Callable[[], None]
) -> dict[str, str]:
    """Has three ranks write the file, and checks what they say but for the calls of metadata, which is returned."""
    words = [MPIEXEC, "-n", 3, BUILD / "mpiio_failing_server", f"{uri}&timeout={timeout_s}", folder]
    with subprocess.Popen(
        list(map(str, words)), env=environment(LD_PRELOAD=str(LIBRARY)), stdout=subprocess.PIPE, text=True
    ) as program:
        wait_for(folder / "begun", program)
        fail()
        wait_for(folder / "failed", program)
        mend()
        (folder / "works").touch()
        output, _ = program.communicate(timeout=150)
    found = cases(output)
    transfers_in_vain = {"a later write_at_all", *IN_VAIN}
    assert {found[name] for name in transfers_in_vain} == {ON_ALL_RANKS["I/O"]}, output
    for name in {*transfers_in_vain, *OF_METADATA} - {"iwrite_at_all"}:
        if found[name] == ON_ALL_RANKS["done"]:  # of metadata
            continue
        text = found[f"text of {name}"]
        # Open MPI's texts end after 255 bytes.
        assert re.match("Ferry: .*(Connection timed out|Connection refused|Input/output error)", text), text
        # A call waits for two requests at most, and the machine may be busy.
        assert float(found[f"seconds of {name}"]) < 2 * timeout_s + 2, output
    assert output.count(f"write_at_all again: {ON_ALL_RANKS['done']}\n") == 4, output
    assert (found["sync again"], found["close"]) == (ON_ALL_RANKS["done"],) * 2, output
    assert found["what is there"] == ON_ALL_RANKS["done right"]
    assert program.returncode == 0
    return found


def without_memory(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The program on a mock of Ceph's library, which allocates for itself.

    Its ranks write their errors to a file: mpiexec may drop the last ones of a job that ends by MPI_Abort.
    """
    settings, library = folder / "ceph.conf", folder / "libcephfs.so.2"
    settings.write_text("/\n")
    if not library.exists():
        library.symlink_to(BUILD / "mocks" / "libcephfs_mock.so")
    uri = f"ceph:{folder / 'file'}?conf={settings}"
    command = ("sh", "-c", 'exec "$@" 2>>"$0"', folder / "said", BUILD / "mpiio_lacks_memory", uri, *words)
    done = under_ferry(2, *command, LD_LIBRARY_PATH=str(folder))
    done.stderr += (folder / "said").read_text()
    return done


def test_a_rank_without_memory(tmp_path: Path) -> None:
    done = without_memory(tmp_path)
    assert transfers(done) > 0
    found = cases(done.stdout)
    assert len(found) == 8
    assert set(found.values()) == {"[fails or works on all ranks] [fails or works on all ranks]"}, done.stdout


@pytest.mark.parametrize("allocation", [5, 7])
def test_a_rank_without_memory_for_opening_ends_the_job(tmp_path: Path, allocation: int) -> None:
    done = without_memory(tmp_path, allocation)
    assert done.returncode != 0
    assert "no memory for opening ceph:" in done.stderr


def test_a_rank_without_memory_in_an_exchange_ends_the_job(tmp_path: Path) -> None:
    done = without_memory(tmp_path, "exchange")
    assert done.returncode != 0
    assert re.search("^ferry: rank 1 has no memory for an exchange of data$", done.stderr, re.MULTILINE), done.stderr


def wait_for(path: Path, program: subprocess.Popen[str]) -> None:
    """Waits until the program has made the file."""
    end = time.monotonic() + 100
    while not path.exists():
        assert program.poll() is None and time.monotonic() < end, path.name
        time.sleep(0.02)


def test_a_mapped_folder(server: Server, node: Node, tmp_path: Path) -> None:
    """The ranks go to the server themselves, by names below the folder."""
    (tmp_path / "mapped").mkdir()
    done = node.command.run(
        "run", "--mpi-io", "--summary", "--map", f"{tmp_path / 'mapped'}={server.uri}", "--",
        *(MPIEXEC, "-n", 2, BUILD / "mpiio_random_calls", tmp_path / "mapped" / "a %?file", SEED, CALLS, MODES[-1]),
    )  # fmt: skip
    plain = mpi(2, BUILD / "mpiio_random_calls", tmp_path / "plain", SEED, CALLS, MODES[-1])
    assert done.stdout == plain.stdout, f"seed {SEED}"
    assert transfers(done) > 0
    assert server.uri.partition(":")[0] + ":" in done.stderr
    assert (server.folder / "a %?file").read_bytes() == (tmp_path / "plain").read_bytes()
