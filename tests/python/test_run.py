"""``ferry run`` and ``ferry daemon``, with a made-up ferryd and an empty library."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferry import daemon, programs
from ferry.errors import FerryError
from support import BUILD, ROOT, TIMEOUT_S, Command, eventually

FERRYD = ROOT / "tests" / "python" / "made_up_ferryd.py"


def compile_c(output: Path, text: str, *flags: str) -> Path:
    command = [os.environ.get("CC", "cc"), *flags, "-x", "c", "-", "-o", str(output)]
    subprocess.run(command, input=text, text=True, check=True)
    return output


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library without any function."""
    return compile_c(tmp_path_factory.mktemp("library") / "empty.so", "int ferry_nothing;", "-shared")


class Built:
    """A build folder with a made-up ferryd, and the command that uses it."""

    def __init__(self, command: Command, folder: Path, sockets: Path, library: Path) -> None:
        self.folder = folder
        self.library = folder / "libferry_run.so"
        self.socket = sockets / "ferry" / "ferryd.sock"
        folder.mkdir()
        shutil.copy(library, self.library)
        text = FERRYD.read_text()
        (folder / "ferryd").write_text(f"#!{sys.executable} -SE\n{text}")
        (folder / "ferryd").chmod(0o755)
        self.command = command
        for name in list(command.environment):
            if name.startswith(("LD_PRELOAD", "FERRY_RUN", "FERRY_IOBUF")):
                del command.environment[name]
        command.environment |= {"FERRY_BUILD_DIR": str(folder), "XDG_RUNTIME_DIR": str(sockets)}

    def behaves(self, how: str) -> None:
        (self.folder / "behaviour").write_text(how)

    def requests(self, action: str) -> list[dict[str, Any]]:
        path = self.folder / "requests"
        lines = path.read_text().splitlines() if path.exists() else []
        return [request for request in map(json.loads, lines) if request["action"] == action]

    def processes(self) -> list[int]:
        path = self.folder / "processes"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def plain(self, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program without Ferry, in the same folder and environment."""
        options = {"stdin": subprocess.DEVNULL} | options
        return subprocess.run(
            list(map(str, words)), env=self.command.environment, cwd=self.command.scratch,
            capture_output=True, text=True, timeout=TIMEOUT_S, **options,
        )  # fmt: skip

    def variables(self, *options: object) -> dict[str, str]:
        """The environment of a program under ``ferry run OPTIONS``."""
        lines = self.command.succeeds("run", *options, "--", "env", "-0").split("\0")
        return dict(line.split("=", 1) for line in lines if line)


@pytest.fixture
def built(command: Command, tmp_path: Path, library: Path) -> Iterator[Built]:
    sockets = Path(tempfile.mkdtemp(prefix="ferry-test-"))  # socket paths are short
    built = Built(command, tmp_path / "build", sockets, library)
    yield built
    for process in built.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(sockets)


def is_gone(process: int) -> bool:
    """Whether it does not exist, but for what its parent has not read."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def one_line(text: str) -> str:
    assert text.startswith("ferry: ")
    assert text.count("\n") == 1
    return text


# ---- the program ---------------------------------------------------------------------------------


def test_a_program_gets_its_arguments_as_they_are(built: Built) -> None:
    words = ["a b", "", "--help", "--", "--map", "-x", "*"]
    program = "import sys; print(sys.argv[1:])"
    done = built.command.run("run", "--", sys.executable, "-c", program, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{words}\n", "")
    done = built.command.run("run", sys.executable, "-c", program, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{words}\n", "")


@pytest.mark.parametrize("locale", [None, "C", "C.UTF-8"])
def test_only_ferrys_variables_are_added(built: Built, locale: str | None) -> None:
    for name in [name for name in built.command.environment if name.startswith(("LC_", "LANG"))]:
        del built.command.environment[name]
    if locale is not None:
        built.command.environment["LANG"] = locale
    found = built.variables()
    assert found == built.command.environment | {
        "LD_PRELOAD": str(built.library),
        "FERRY_RUN_SOCKET": str(built.socket),
    }


def test_the_library_comes_before_others_and_once(built: Built, library: Path) -> None:
    built.command.environment["LD_PRELOAD"] = f"{library} {built.library}"
    assert built.variables()["LD_PRELOAD"] == f"{built.library}:{library}"


def test_a_run_within_a_run_has_its_own_options(built: Built) -> None:
    inner = built.command.arguments("run", "--", "env")
    outer = built.command.succeeds("run", "--map", ".", "--summary", "--", *inner)
    assert "FERRY_RUN_MAP" not in outer
    assert "FERRY_RUN_SUMMARY" not in outer
    assert outer.count("LD_PRELOAD=") == 1
    assert f"LD_PRELOAD={built.library}\n" in outer


def test_maps_become_absolute_paths(built: Built, scratch: Path) -> None:
    (scratch / "one").mkdir()
    (scratch / "a=b").mkdir()
    (scratch / "link").symlink_to("one")
    found = built.variables("--map", "link", "--map", "a=b", "--map", "/usr/share/")
    assert found["FERRY_RUN_MAP"] == f"{scratch}/one:{scratch}/a=b:/usr/share"


def test_buffers_become_the_librarys_setting(built: Built) -> None:
    found = built.variables("--buffer", "*.dat:size=8m:count=4", "--buffer", "/a/[xy]")
    assert found["FERRY_IOBUF"] == "*.dat:size=8388608:count=4,/a/[xy]"
    assert found["FERRY_IOBUF_SUMMARY"] == ""
    assert "FERRY_RUN_MAP" not in found


def test_where_the_summary_goes(built: Built, scratch: Path) -> None:
    assert built.variables("--summary")["FERRY_RUN_SUMMARY"] == "-"
    found = built.variables("--summary=out", "--buffer", "x")
    assert found["FERRY_RUN_SUMMARY"] == found["FERRY_IOBUF_SUMMARY"] == f"{scratch}/out"
    # It takes no word of the program.
    done = built.command.run("run", "--summary", "printenv", "FERRY_RUN_SUMMARY")
    assert (done.returncode, done.stdout) == (0, "-\n")


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_the_exit_status_is_the_programs(built: Built, status: int) -> None:
    done = built.command.run("run", "--", "sh", "-c", f"exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGPIPE, signal.SIGINT])
def test_a_signal_ends_the_program_as_without(built: Built, number: signal.Signals) -> None:
    words = ["sh", "-c", f"kill -{number.value} $$"]
    plain = subprocess.run(words, capture_output=True, text=True, check=False)
    done = built.command.run("run", "--", *words)
    # A job in the background of a shell begins with SIGINT ignored, and so do its children.
    assert plain.returncode in {-number, 0 if signal.getsignal(number) == signal.SIG_IGN else -number}
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


@pytest.mark.parametrize("ignored", [[], [signal.SIGHUP], [signal.SIGTERM, signal.SIGINT]])
def test_signals_are_ignored_and_blocked_as_without(built: Built, ignored: list[signal.Signals]) -> None:
    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    words = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    plain = built.plain(*words, preexec_fn=ignore)
    assert built.command.run("run", "--", *words, preexec_fn=ignore).stdout == plain.stdout
    assert plain.stdout.count("\n") == 3


def test_descriptors_folder_limits_and_mask_are_as_without(built: Built) -> None:
    words = ["sh", "-c", "ls /proc/$$/fd; pwd; umask; ulimit -a"]
    plain = built.plain(*words, umask=0o027)
    assert plain.stdout.count("\n") > 8
    assert built.command.run("run", "--", *words, umask=0o027).stdout == plain.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
@pytest.mark.parametrize("options", [[], ["--explain"], ["--or-plain"]])
def test_a_program_runs_whatever_the_standard_streams_are(
    built: Built, scratch: Path, closed: str, options: list[str]
) -> None:
    command = shlex.join(built.command.arguments("run", *options, "--", "touch", "there"))
    assert built.plain("sh", "-c", f"{command} {closed}").returncode == 0
    assert (scratch / "there").exists()
    assert len(built.requests("serve")) == 1


def test_the_process_is_the_programs(built: Built) -> None:
    """It keeps its number, reads standard input from the start, and has no child that it did not start."""
    program = "import os, sys; print(os.getpid(), sys.stdin.read()); os.wait()"
    process = subprocess.Popen(
        built.command.arguments("run", "--", sys.executable, "-c", program), env=built.command.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    output, messages = process.communicate("typed", timeout=TIMEOUT_S)
    assert output == f"{process.pid} typed\n"
    assert messages.endswith("No child processes\n")


def test_ferryd_keeps_nothing_of_who_started_it(built: Built, scratch: Path) -> None:
    """No descriptor, folder, session or preloaded library."""
    reading, writing = os.pipe()
    built.command.environment["LD_PRELOAD"] = str(built.library)
    built.command.succeeds("run", "--map", ".", "--", "true", pass_fds=[writing])
    os.close(writing)
    assert select.select([reading], [], [], TIMEOUT_S)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)
    (process,) = built.processes()
    assert Path(f"/proc/{process}/cwd").readlink() == Path("/")
    assert os.getsid(process) != os.getsid(0)
    environment = Path(f"/proc/{process}/environ").read_bytes()
    assert b"LD_PRELOAD" not in environment and b"FERRY_RUN" not in environment


@pytest.mark.parametrize("first_line", ["", "#!/bin/sh\n", "#! /usr/bin/env sh\n"])
def test_scripts_are_programs(built: Built, scratch: Path, first_line: str) -> None:
    (scratch / "script").write_text(f'{first_line}echo "$LD_PRELOAD" "$@"\n')
    (scratch / "script").chmod(0o755)
    done = built.command.run("run", "--", "./script", "a", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{built.library} a b c\n", "")


# ---- programs that cannot be started, or not with Ferry --------------------------------------------


def test_programs_that_are_not_there(built: Built, scratch: Path) -> None:
    (scratch / "data").write_text("x")
    (scratch / "script").write_text("#!/nowhere/sh\n")
    (scratch / "script").chmod(0o755)
    fails = built.command.fails
    fails("run", "--", "no-such-program", says="'no-such-program' is not in PATH", status=127)
    fails("run", "--", "./none", "x", says="'./none' is not there", status=127)
    fails("run", "--", "", says="'' is not in PATH", status=127)
    fails("run", "--or-plain", "--", "./none", says="'./none' is not there", status=127)
    fails("run", "--", "./script", says="'/nowhere/sh', which is not there", status=127)
    fails("run", "--", "./data", says="may not be executed", status=126)
    fails("run", "--", scratch, says="is a directory", status=126)
    fails("run", "--", "./data/x", says="is not there", status=127)
    assert built.requests("status") == built.requests("serve") == []


def test_a_static_program_runs_plain(built: Built, scratch: Path) -> None:
    main = 'int main(void) { return puts(getenv("LD_PRELOAD") ? "" : "plain") < 0; }'
    compile_c(scratch / "static", f"#include <stdio.h>\n#include <stdlib.h>\n{main}", "-static")
    done = built.command.run("run", "--", "./static")
    assert (done.returncode, done.stdout) == (0, "plain\n")
    assert one_line(done.stderr) == "ferry: ./static is linked statically; it runs without Ferry\n"
    assert built.processes() == []


def test_a_program_of_another_c_library_runs_plain(built: Built, scratch: Path) -> None:
    program = Path("/bin/true").read_bytes()
    begin = program.index(b"/lib64/ld-linux")
    end = program.index(b"\0", begin)
    (scratch / "ld-musl-x.so.1").symlink_to(os.fsdecode(program[begin:end]))
    name = b"./ld-musl-x.so.1".ljust(end - begin, b"\0")
    (scratch / "program").write_bytes(program[:begin] + name + program[end:])
    (scratch / "program").chmod(0o755)
    done = built.command.run("run", "--", "./program")
    assert done.returncode == 0
    assert "another C library than glibc (ld-musl-x.so.1)" in one_line(done.stderr)


@pytest.mark.skipif(os.getuid() != 0, reason="absent: root, who can make programs of other users")
@pytest.mark.parametrize(("mode", "says"), [(0o4755, "(setuid)"), (0o2755, "(setgid)")])
def test_a_program_with_others_rights_runs_plain(built: Built, scratch: Path, mode: int, says: str) -> None:
    shutil.copy("/usr/bin/printenv", scratch / "program")
    os.chown(scratch / "program", 65534, 65534)
    (scratch / "program").chmod(mode)
    done = built.command.run("run", "--", "./program", "LD_PRELOAD")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in one_line(done.stderr)
    (scratch / "program").chmod(0o755)
    assert built.command.succeeds("run", "--", "./program", "LD_PRELOAD") == f"{built.library}\n"


# ---- wrong input, and a ferryd that does not serve -------------------------------------------------


WRONG = [
    (["--map", "/"], "/ holds the system's own files"),
    (["--map", "/usr/.."], "/ holds the system's own files"),
    (["--map", "nowhere"], "--map nowhere: No such file or directory"),
    (["--map", ""], "--map : "),
    (["--map", "file"], "--map file: no folder"),
    (["--map", "co:lon"], "a colon cannot be in the path"),
    (["--map", "/data=s3://bucket"], "what follows '=' is no URI; it begins with nfs://, ceph:/, pvfs2:/"),
    (["--map", "/data=/other"], "what follows '=' is no URI"),
    (["--map", "nfs://server/export"], "name the folder for it, too: --map FOLDER=nfs://server/export"),
    (["--buffer", ""], "a pattern is missing"),
    (["--buffer", ":size=8m"], "a pattern is missing"),
    (["--buffer", "a,b"], "has a comma"),
    (["--buffer", "a:size=5"], "size is '5'; it is a multiple of 4k, at most 1g"),
    (["--buffer", "a:size=2g"], "it is a multiple of 4k, at most 1g"),
    (["--buffer", "a:size=lots"], "'lots' is no size"),
    (["--buffer", "a:count=0"], "count is '0'; it is from 1 to 1024"),
    (["--buffer", "a:count=1025"], "it is from 1 to 1024"),
    (["--buffer", "a:depth=3"], "'depth=3' is no setting"),
    (["--cache", "8m"], "a cache of 8 MiB is too small; --cache takes 16 MiB or more"),
    (["--cache", "1000000g"], "does not fit into memory"),
    (["--summary=."], "is a directory"),
    (["--summary=nowhere/x"], "nowhere does not exist"),
]


@pytest.mark.parametrize(("options", "says"), WRONG)
def test_what_cannot_be_served_is_refused_in_one_line(
    built: Built, scratch: Path, options: list[str], says: str
) -> None:
    (scratch / "file").touch()
    (scratch / "co:lon").mkdir()
    built.command.fails("run", *options, "--", "touch", "started", says=says)
    assert not (scratch / "started").exists()
    done = built.command.run("run", *options, "--or-plain", "--", "printenv", "PATH", "LD_PRELOAD")
    assert (done.returncode, done.stdout) == (1, f"{built.command.environment['PATH']}\n")
    assert says in one_line(done.stderr)
    assert done.stderr.endswith("printenv runs without Ferry\n")
    assert built.processes() == []


# A program would find other files than it is meant to: these end it also with --or-plain.
@pytest.mark.parametrize(
    ("maps", "says"),
    [
        (["nowhere=ceph:/data"], "nowhere: No such file or directory; name a folder that is there"),
        (["file=ceph:/data"], "--map file=ceph:/data: no folder"),
        (["=ceph:/data"], "no folder; name one"),
        (["/=ceph:/data"], "/ holds the system's own files"),
        (["/usr=ceph:/data"], "programs need what is in /usr; name another folder"),
        ([".=ceph:/data", ".=ceph:/other"], "is given twice; leave one out"),
        (["co\udcfflon=ceph:/data"], "is not UTF-8; name another folder or path"),
    ],
)
def test_a_wrong_map_onto_a_uri_ends_the_command(built: Built, scratch: Path, maps: list[str], says: str) -> None:
    (scratch / "file").touch()
    os.mkdir(os.fsencode(scratch) + b"/co\xfflon")
    given = [word for text in maps for word in ("--map", text)]
    for options in ([], ["--or-plain"]):
        built.command.fails("run", *options, *given, "--", "touch", "started", says=says)
    assert not (scratch / "started").exists()


def test_maps_onto_uris_are_made_by_the_program_that_mounts(built: Built, scratch: Path) -> None:
    program = built.folder / "ferry-mount"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@" "$LD_PRELOAD" "$FERRY_MOUNT_PRELOAD"\n')
    program.chmod(0o755)
    (scratch / "a").mkdir()
    (scratch / "b").mkdir()
    options = ["--map", "a=ceph:/data?conf=x", "--map", "b", "--map", "b=nfs://server/export", "--explain"]
    done = built.command.run("run", *options, "--", "a/program", "word")
    words = done.stdout.split("|")
    assert json.loads(words[0]) == [
        {"folder": f"{scratch}/a", "target": "ceph:/data?conf=x"},
        {"folder": f"{scratch}/b", "target": "nfs://server/export"},
    ]
    # The program is on the cluster: it is looked for when that is there.
    assert words[1:] == [f"{scratch}/a/program", "a/program", "word", "", str(built.library), ""]
    assert f"mapped: {scratch}/a is ceph:/data?conf=x, through FUSE" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Missing argument"),
        (["run", "--"], "Missing argument"),
        (["run", "--nope", "--", "true"], "No such option"),
        (["run", "--cache", "lots", "--", "true"], "'lots' is no size"),
        (["run", "--map"], "requires an argument"),
        (["daemon", "start", "--idle", "-1"], "-1 is not from 0"),
        (["daemon", "restart"], "No such command"),
    ],
)
def test_wrong_arguments(built: Built, arguments: list[str], says: str) -> None:
    built.command.fails(*arguments, says=says, status=2)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("refuses", "ferry: no room for the cache"),
        ("crashes", "ferryd ended at once: ferryd: something is wrong inside"),
        ("another version", "is of another version of Ferry: 9.9.9"),
    ],
)
def test_ferryds_error_is_the_commands(built: Built, how: str, says: str) -> None:
    built.behaves(how)
    built.command.fails("run", "--", "echo", "started", says=says)
    done = built.command.run("run", "--or-plain", "--", "sh", "-c", "echo plain; exit 3")
    assert (done.returncode, done.stdout) == (3, "plain\n")
    assert says in one_line(done.stderr)


def test_a_ferryd_that_cannot_be_executed_is_said(built: Built) -> None:
    (built.folder / "ferryd").write_text("")
    built.command.fails("run", "--", "true", says="ferryd: Exec format error")


@pytest.mark.parametrize("missing", ["ferryd", "libferry_run.so"])
def test_what_is_not_built_is_said(built: Built, missing: str) -> None:
    (built.folder / missing).unlink()
    built.command.fails("run", "--", "true", says=f"{missing} is not in {built.folder}")


@pytest.mark.parametrize("place", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_an_installed_library_is_found_beside_ferryd(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(built.folder / "ferryd", prefix / "bin")
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "a" / "package" / "programs.py"))
    monkeypatch.delenv("FERRY_BUILD_DIR", raising=False)
    monkeypatch.setenv("PATH", str(prefix / "bin"))
    with pytest.raises(FerryError, match="not beside the package or ferryd"):
        programs.find_library("libferry_run.so")
    (prefix / place).mkdir(parents=True)
    shutil.copy(built.library, prefix / place)
    (prefix / place / "libferry_run.so").chmod(0o644)
    assert programs.find_library("libferry_run.so") == prefix / place / "libferry_run.so"


def test_a_path_that_cannot_be_preloaded_is_said(built: Built, tmp_path: Path) -> None:
    built.folder.rename(tmp_path / "a build")
    built.command.environment["FERRY_BUILD_DIR"] = str(tmp_path / "a build")
    built.command.fails("run", "--", "true", says="has a space or a colon in its path")


def test_a_ferryd_that_does_not_get_ready_is_ended(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    built.behaves("never ready")
    for name, value in built.command.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(daemon, "_START_TIMEOUT_S", 3.0)
    with pytest.raises(FerryError, match="is not ready after 3 s"):
        daemon.ensure(None, 0)
    (process,) = built.processes()
    eventually(lambda: is_gone(process))


@pytest.mark.parametrize(
    ("available", "outcome"),
    [
        (64 << 20, 16 << 20),
        (8 << 30, 2 << 30),
        (40 << 30, 4 << 30),
        (63 << 20, "too little memory: 63 MiB are available"),
    ],
)
def test_the_size_of_the_cache(monkeypatch: pytest.MonkeyPatch, available: int, outcome: int | str) -> None:
    monkeypatch.setattr(daemon, "available_bytes", lambda: available)
    if isinstance(outcome, int):
        assert daemon._default_cache_bytes() == outcome
    else:
        with pytest.raises(FerryError, match=outcome):
            daemon._default_cache_bytes()


# ---- ferryd ----------------------------------------------------------------------------------------


def test_the_first_program_starts_ferryd_and_the_next_use_it(built: Built) -> None:
    built.command.succeeds("run", "--cache", "32m", "--", "true")
    built.command.succeeds("run", "--cache", "64m", "--", "true")
    (request,) = built.requests("serve")
    assert request == {
        "action": "serve", "socket": str(built.socket), "cache_bytes": 32 << 20, "idle_s": 300,
    }  # fmt: skip


def test_a_size_that_changes_nothing_is_said(built: Built) -> None:
    assert built.command.run("run", "--cache", "32m", "--", "true").stderr == ""
    assert built.command.run("run", "--cache", "32m", "--", "true").stderr == ""
    assert built.command.run("run", "--", "true").stderr == ""
    said = one_line(built.command.run("run", "--cache", "64m", "--", "true").stderr)
    assert said.endswith(" serves already, with a cache of 32 MiB; --cache changes nothing\n")
    built.command.fails(
        "run", "--cache", "3", "--", "true", says="a cache of 3 bytes is too small; --cache takes 16 MiB"
    )


def test_two_that_start_at_once_share_one(built: Built) -> None:
    built.command.succeeds("daemon", "start")
    (built.folder / "requests").unlink()
    built.behaves("started by another")  # between the first look and the start
    assert built.variables()["FERRY_RUN_SOCKET"] == str(built.socket)
    assert len(built.requests("serve")) == 1
    assert len(built.requests("status")) == 2


def test_one_that_has_the_socket_and_never_listens_is_not_waited_for(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    built.behaves("has the socket")
    for name, value in built.command.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(daemon, "_START_TIMEOUT_S", 2.0)
    with pytest.raises(FerryError, match="another ferryd serves"):
        daemon.ensure(None, 0)
    assert len(built.requests("serve")) > 1


def test_a_ferryd_that_hangs_up_is_called_again(built: Built) -> None:
    """By the program of this build: a busy machine may keep it from sending in time."""
    built.socket.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as busy:
        busy.bind(str(built.socket))
        busy.listen(100)
        busy.settimeout(TIMEOUT_S)
        request = json.dumps({"action": "status", "socket": str(built.socket)})
        with subprocess.Popen([BUILD / "ferryd", request], stdout=subprocess.PIPE, text=True) as asking:
            for _ in range(10):
                busy.accept()[0].close()
            said, _ = asking.communicate(timeout=TIMEOUT_S)
    assert asking.returncode != 0
    assert "does not answer" in said


def test_a_leftover_socket_is_no_hindrance(built: Built) -> None:
    built.command.succeeds("daemon", "start")
    os.kill(built.processes()[0], signal.SIGKILL)
    assert built.socket.exists()
    built.command.succeeds("run", "--", "true")
    assert len(built.processes()) == 2


def test_starting_watching_and_stopping(built: Built) -> None:
    fails, succeeds = built.command.fails, built.command.succeeds
    fails("daemon", "status", says=f"no ferryd serves {built.socket}")
    fails("daemon", "stop", says=f"no ferryd serves {built.socket}")
    said = succeeds("daemon", "start", "--cache", "64m", "--idle", "9")
    (process,) = built.processes()
    assert said == f"ferryd {process} serves {built.socket} with a cache of 64 MiB\n"
    assert built.requests("serve")[0]["idle_s"] == 9
    assert "already serves" in succeeds("daemon", "start")
    rows = dict(line.split(maxsplit=1) for line in succeeds("daemon", "status").splitlines())
    assert rows["socket"] == str(built.socket)
    assert (rows["process"], rows["cache"], rows["cached"], rows["hits"]) == (*(str(process), "64 MiB", "4 KiB", "5"),)
    document = built.command.json("daemon", "status")
    assert document["schema"] == "ferry.daemon/1"
    assert (document["pid"], document["hits"], document["breaks"]) == (process, 5, 7)
    assert succeeds("daemon", "stop") == f"no ferryd serves {built.socket} any more\n"
    fails("daemon", "status", says="no ferryd serves")
    succeeds("daemon", "start")
    assert built.requests("serve")[-1]["idle_s"] == 0


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"FERRY_RUN_SOCKET": "/elsewhere/s"}, "/elsewhere/s"),
        ({"FERRY_RUN_SOCKET": "", "XDG_RUNTIME_DIR": "/run/me"}, "/run/me/ferry/ferryd.sock"),
        ({"FERRY_RUN_SOCKET": "", "XDG_RUNTIME_DIR": ""}, f"/tmp/ferry-{os.getuid()}/ferryd.sock"),
        ({"FERRY_RUN_SOCKET": "", "XDG_RUNTIME_DIR": "me"}, f"/tmp/ferry-{os.getuid()}/ferryd.sock"),
    ],
)
def test_where_the_socket_is(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], place: str) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert daemon.socket_path() == place


def test_explain_says_what_is_served_before_the_program(built: Built, scratch: Path) -> None:
    options = ["--map", ".", "--buffer", "*.dat", "--cache", "16m", "--explain"]
    done = built.command.run("run", *options, "--", "sh", "-c", "echo the program >&2")
    lines = done.stderr.splitlines()
    assert lines.pop() == "the program"
    assert 4 < len(lines) <= 8
    assert all(line.startswith("ferry: ") for line in lines)
    assert f"ferryd {built.processes()[0]}, started now, serves with a cache of 16 MiB" in lines[0]
    assert f"below {scratch} " in lines[1]
    assert "*.dat" in lines[2]
    assert any("open for writing" in line for line in lines)
    assert any("files of other users" in line for line in lines) == (os.geteuid() != 0)
    done = built.command.run("run", "--explain", "--", "true")
    assert "which served before" in done.stderr and "outside /usr, /lib" in done.stderr


def test_the_script_of_the_checkout_keeps_the_environment(built: Built, tmp_path: Path) -> None:
    """What ./ferry needs for itself does not reach the program."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "ferry", checkout)
    for room in ("python", "lab", "scripts/help"):
        (checkout / room).symlink_to(ROOT / room)
    (checkout / "scripts" / "setup.sh").write_text(
        f"setup_begin() {{ setup_python={shlex.quote(sys.executable)}; }}\nsetup_use_as_is() {{ :; }}\n"
    )
    built.command.environment |= {"PYTHONPATH": "/mine", "PYTHONHOME": "/my/python"}
    ours = {"LD_PRELOAD": str(built.library), "FERRY_RUN_SOCKET": str(built.socket)}
    done = built.plain(checkout / "ferry", "run", "--", "env", "-0")
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    the_shells = {"_", "SHLVL", "PWD", "OLDPWD"}
    assert {name: value for name, value in found.items() if name not in the_shells} == {
        name: value for name, value in (built.command.environment | ours).items() if name not in the_shells
    }
    done = built.plain(checkout / "ferry", "run", "printf", "%s\\n", "--help")
    assert (done.returncode, done.stdout) == (0, "--help\n")
