"""Commands on CephFS, by its library and mounted; most need a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import Command
from file_system_checks import CHECKS

SERVER = os.environ.get("FERRY_TEST_CEPH", "")
MOUNTED = Path(os.environ.get("FERRY_TEST_CEPH_DIRECTORY", "/nonexistent"))
needs_cluster = pytest.mark.skipif(
    not SERVER, reason="absent: no Ceph cluster; ./test --stage storages starts one"
)


def uri(name: str) -> str:
    """The library's name for a file of the mounted folder."""
    path, _, settings = SERVER.partition("?")
    return f"{path}{name}?{settings}"


@pytest.fixture(name="folder")
def _folder() -> Iterator[str]:
    """A temporary folder on the cluster."""
    folder = MOUNTED / f"ferry-test-{os.getpid()}"
    folder.mkdir()
    yield folder.name
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    folder.rmdir()


def test_info_says_why_a_cluster_cannot_be_used(command: Command) -> None:
    done = command.run("info", "ceph:/x?conf=/absent/ceph.conf")
    assert done.returncode == 1
    assert "the Ceph cluster of /absent/ceph.conf cannot be used" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("settings", ["nonsense=1", "timeout=0", "uid=x"])
def test_info_says_what_is_wrong_with_a_uri(command: Command, settings: str) -> None:
    done = command.run("info", f"ceph:/x?{settings}")
    assert done.returncode == 1
    assert settings.split("=")[0] in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "/tmp/x"], "say what to set"),
        (["set", "/tmp/x", "--at-most"], "say what to set"),
        (["set", "/tmp/x", "--stripe-count", "0"], "0 is not from 1"),
        (["get"], "Missing argument"),
    ],
)
def test_layout_refuses_wrong_arguments(
    command: Command, arguments: list[str], words: str
) -> None:
    done = command.run("layout", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_storage_without_layouts_says_so(command: Command, scratch: Path) -> None:
    for arguments in (["get", str(scratch)], ["set", "new", "--stripe-count", "2"]):
        done = command.run("layout", *arguments)
        assert done.returncode == 1
        assert "lies on no storage that stripes files" in done.stderr
        assert done.stderr.count("\n") == 1
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("name", "option"), [("nfs", "--disk"), ("ceph", "--memory")])
def test_rig_up_takes_the_options_of_that_rig_only(
    command: Command, name: str, option: str
) -> None:
    done = command.run("rig", "up", name, option)
    assert done.returncode == 2
    assert f"rig up {name} takes no {option}" in done.stderr


@needs_cluster
def test_info(command: Command, folder: str) -> None:
    (MOUNTED / folder / "f").write_bytes(b"abc")
    facts = json.loads(command.run("info", uri(f"{folder}/f"), "--json", "-").stdout)["storage"]
    assert (facts["storage"], facts["engine"]) == ("ceph", "libcephfs")
    assert (facts["kind"], facts["size_bytes"], facts["problem"]) == ("file", 3, None)
    assert facts["layout"]["pool"] == "data"
    shown = command.run("info", uri(f"{folder}/f")).stdout
    assert "CephFS (the default one) as client.admin" in shown
    assert "stripe size 4 MiB, stripe count 1, object size 4 MiB, pool data" in shown
    mounted = json.loads(command.run("info", str(MOUNTED / folder / "f"), "--json", "-").stdout)
    assert mounted["path"]["layout"] == facts["layout"]
    assert mounted["path"]["file_system"]["type"] == "fuse.ceph-fuse"


@needs_cluster
@pytest.mark.parametrize("by", ["library", "mount"])
def test_layouts(command: Command, folder: str, by: str) -> None:
    def at(name: str) -> str:
        return uri(f"{folder}/{name}") if by == "library" else str(MOUNTED / folder / name)

    done = command.run(
        "layout", "set", at("f"), "--stripe-size", "1m", "--stripe-count", "4", "--pool", "small"
    )
    assert done.returncode == 0, done.stderr
    assert "(file, made)" in done.stdout
    got = json.loads(command.run("layout", "get", at("f"), "--json", "-").stdout)
    assert got["schema"] == "ferry.layout/1"
    assert (got["layout"]["stripe_bytes"], got["layout"]["stripe_count"]) == (1 << 20, 4)
    assert got["layout"]["pool"] == "small"
    again = command.run("layout", "set", at("f"), "--stripe-count", "2")
    assert again.returncode == 1
    assert "is there already" in again.stderr
    wrong = command.run("layout", "set", at("g"), "--stripe-size", "100k")
    assert wrong.returncode == 1
    assert "multiples of 64 KiB" in wrong.stderr
    assert not (MOUNTED / folder / "g").exists()
    less = command.run("layout", "set", at("g"), "--stripe-size", "100k", "--at-most")
    assert less.returncode == 0
    assert less.stdout.splitlines()[-1].split() == ["reduced", "stripe", "size"]
    (MOUNTED / folder / "d").mkdir()
    assert command.run("layout", "set", at("d"), "--stripe-count", "3").returncode == 0
    (MOUNTED / folder / "d" / "h").write_bytes(b"x")
    inherited = json.loads(command.run("layout", "get", at("d/h"), "--json", "-").stdout)
    assert inherited["layout"]["stripe_count"] == 3


@needs_cluster
def test_copy_there_and_back(command: Command, scratch: Path, folder: str) -> None:
    data = os.urandom((9 << 20) + 77)
    (scratch / "from").write_bytes(data)
    assert command.run("cp", "from", uri(f"{folder}/copied")).returncode == 0
    assert (MOUNTED / folder / "copied").read_bytes() == data
    assert command.run("cp", uri(f"{folder}/copied"), uri(f"{folder}/again")).returncode == 0
    assert command.run("cp", uri(f"{folder}/again"), scratch).returncode == 0
    assert (scratch / "again").read_bytes() == data
    assert command.run("cp", "from", uri(f"{folder}/again")).returncode == 1
    assert {path.name for path in (MOUNTED / folder).iterdir()} == {"again", "copied"}


@needs_cluster
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_programs_through_fsspec(folder: str, check: Callable[[str], None]) -> None:
    check(uri(folder).replace("ceph:/", "ceph:///", 1))  # what fsspec takes for a URL
