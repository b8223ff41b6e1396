"""``ferry bench`` on URIs; server tests run on each server in the environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from documents import measured
from ferry import uris
from ferry_lab.run import measuring
from measured import failure
from processes import started, wait_until
from support import TIMEOUT_S, Command, cell

NOWHERE = "nfs://127.0.0.1/x?nfsport=1&mountport=1"


@dataclass
class Served:
    """A storage by its URI, and the same folder mounted."""

    folder_uri: str
    folder: Path
    caches: bool  # whether its client library caches reads

    def uri(self, name: str) -> str:
        return uris.in_folder(self.folder_uri, name)

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture(params=["NFS", "CEPH"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Each storage whose server is up; restores its folder."""
    name = f"FERRY_TEST_{request.param}"
    if name not in os.environ:
        pytest.skip(f"absent: no server ({name}); ./test --stage storages starts one")
    one = Served(os.environ[name], Path(os.environ[f"{name}_DIRECTORY"]), request.param == "CEPH")
    before = one.names()
    yield one
    assert one.names() == before


def bench(command: Command, *arguments: object) -> tuple[dict[str, Any], str]:
    """Runs it, and returns the document and the output."""
    return measured(command, "bench", "--overwrite", *arguments)


# ---- without a server ----------------------------------------------------------------------------


@pytest.mark.parametrize("interface", ["posix", "mmap", "uring"])
def test_only_ferry_reaches_a_uri(command: Command, interface: str) -> None:
    command.fails("bench", "-a", interface, NOWHERE, says="a URI is reached by -a ferry, in any placement", status=2)
    error = failure([{**cell(Path("x"), interface=interface), "path": NOWHERE}], status=2)
    assert "must be ferry for a URI" in error["message"]


def test_direct_io_is_for_mounted_file_systems(command: Command) -> None:
    command.fails("bench", "--direct", NOWHERE, says="--direct is for mounted file systems", status=2)


def test_a_server_that_is_not_there(command: Command) -> None:
    command.fails("bench", NOWHERE, says="the NFS server 127.0.0.1 cannot be used")


def test_a_library_that_is_not_there(command: Command) -> None:
    command.fails("bench", "pvfs2:/mnt/none/f", says="pvfs2")


def test_what_no_storage_knows_is_not_shown(command: Command) -> None:
    assert "secret" not in command.fails("bench", f"{NOWHERE}&key=secret,x:1", says='no setting "key"')


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ceph:/f?conf=/c&key=abc", "ceph:/f?conf=/c&key=..."),
        ("ceph:/f?secret=a:b: no such", "ceph:/f?secret=...: no such"),
        ("nfs://h/f?uid=1", "nfs://h/f?uid=1"),
    ],
)
def test_settings_that_may_be_secret_are_hidden(text: str, shown: str) -> None:
    assert uris.shown(text) == shown


def test_names_stand_before_the_query() -> None:
    assert uris.with_suffix("ceph:/a?conf=/c", ".0") == "ceph:/a.0?conf=/c"
    assert uris.with_suffix("/a?b", ".0") == "/a?b.0"
    assert uris.in_folder("ceph:/?conf=/c", "f") == "ceph:/f?conf=/c"
    assert uris.in_folder("nfs://h/e", "f") == "nfs://h/e/f"
    assert uris.folder_of("nfs://h/e/f?uid=1") == "nfs://h/e?uid=1"
    assert uris.folder_of("ceph:/f?conf=/c") == "ceph:/?conf=/c"


# ---- on servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["host", "compute", "service", "automatic"])
def test_writes_and_reads_in_every_placement(command: Command, served: Served, placement: str) -> None:
    uri = served.uri("bench")
    document, shown = bench(*(command, "--placement", placement, "-b", "1m", "-t", "64k", "-i", 2, "-e", uri))
    write, read = document["rows"]
    assert (write["path"], write["verified"], read["verified"]) == (uri, True, True)
    assert read["repeats"][0]["storage"]["network_read_bytes"] is not None
    (storage,) = document["environment"]["storages"]
    assert storage["storage"] == uri.partition(":")[0]
    assert document["environment"]["file_systems"] == []
    assert f"on storage {storage['storage']} (lib" in shown


def test_cold_is_claimed_only_where_every_byte_came(command: Command, served: Served) -> None:
    """--cold makes a caching client library drop the file."""
    uri = served.uri("bench")
    cold, shown = bench(command, "-b", "4m", "-i", 3, "--cold", uri)
    read = cold["rows"][1]
    assert read["cache_state"] == "client-cold"
    assert all(s["storage"]["network_read_bytes"] >= s["bytes"] for s in read["repeats"])
    assert "which cannot be dropped from here" in shown
    usual, shown = bench(command, "-b", "4m", "-i", 3, uri)
    assert usual["rows"][1]["cache_state"] == ("hot" if served.caches else "client-cold")
    assert ("answered from its own memory" in shown) == served.caches


def test_the_devices_cache(command: Command, served: Served) -> None:
    uri = served.uri("bench")
    options = ("--placement", "compute", "-b", "4m", "-i", 2)
    warm, _ = bench(command, *options, "--warm", uri)
    read = warm["rows"][1]
    # Nothing proves that an NFS file is unchanged at another open.
    state = "warm" if uri.startswith("ceph:") else "unverified"
    assert (read["cache_state"], read["device_cache_state"]) == (None, state)
    cold, _ = bench(command, *options, "--cold", uri)
    read = cold["rows"][1]
    assert (read["cache_state"], read["device_cache_state"]) == ("client-cold", "cold")


def test_files_of_threads_segments_and_checks(command: Command, served: Served) -> None:
    uri = served.uri("bench")
    flags = ("--threads", 2, "-b", "256k", "-t", "64k", "-i", 2)
    document, _ = bench(command, *flags, "-F", "-w", "-k", "-W", uri)
    assert document["rows"][0]["file_per_thread"]
    made = {"bench.00000000", "bench.00000001"}
    assert made <= served.names()
    assert {(served.folder / name).stat().st_size for name in made} == {256 << 10}
    bench(command, *flags, "-F", "-r", "-R", "-C", uri)
    measuring.remove([served.uri(name) for name in made])
    assert not made & served.names()
    bench(command, *flags, "-s", 3, "-z", "-Z", "--queue-depth", 4, uri)
    bench(command, "-b", "64m", "-t", "4k", "-D", 1, "-i", 1, "-w", uri)


def test_what_is_there_already(command: Command, served: Served) -> None:
    uri = served.uri("bench")
    path = served.folder / "bench"
    path.write_bytes(b"x" * 100)
    try:
        command.fails("bench", "-b", "1m", uri, says="exists; --overwrite replaces it")
        assert path.read_bytes() == b"x" * 100
        command.fails("bench", "-r", "-b", "1m", uri, says="has 100 bytes, and -b 1 MiB needs 1 MiB")
        bench(command, "-w", "-b", "1m", "-i", 1, uri)  # with --overwrite
        assert path.stat().st_size == 1 << 20, "what was there is not removed"
        command.fails("bench", uris.in_folder(uri, "f"), says="Not a directory")
    finally:
        path.unlink()
    command.fails("bench", "-r", uri, says="does not exist; name a path that does")
    command.fails("bench", served.uri("none/f"), says="does not exist; make it or name another")
    command.fails("bench", served.folder_uri, says="is a directory; name a file in it")


def test_a_corrupted_byte_is_found(command: Command, served: Served) -> None:
    uri = served.uri("bench")
    bench(command, "-w", "-k", "-b", "1m", "-i", 1, uri)
    path = served.folder / "bench"
    try:
        with path.open("r+b") as file:  # written through to the server
            file.seek(700_000)
            byte = file.read(1)
            file.seek(700_000)
            file.write(bytes([byte[0] ^ 1]))
            os.fsync(file.fileno())
        command.fails("bench", "-r", "-R", "-b", "1m", "-i", 1, uri, says="wrong at byte 700000")
    finally:
        path.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(command: Command, served: Served, number: signal.Signals) -> None:
    with started(command, "bench", "-b", "64m", "-i", 1000, served.uri("bench")) as process:
        wait_until(lambda: "bench" in served.names())
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number
    assert "interrupted" in errors or number == signal.SIGTERM
    assert command.processes() == []


def test_measurements_can_be_imported(command: Command, served: Served) -> None:
    bench(command, "-b", "1m", "-i", 2, served.uri("bench"))
    made = command.scratch.parent / "r.json"
    document, _ = measured(command, "import", made.rename(made.with_name("bench.json")))
    assert len(document["rows"]) == 2
