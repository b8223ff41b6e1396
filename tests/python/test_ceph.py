"""Commands on CephFS, by its library and mounted; most need a cluster."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import Command, copy_there_and_back, run_python
from file_system_checks import CHECKS

SERVER = os.environ.get("FERRY_TEST_CEPH", "")
MOUNTED = Path(os.environ.get("FERRY_TEST_CEPH_DIRECTORY", "/nonexistent"))
needs_cluster = pytest.mark.skipif(not SERVER, reason="absent: no Ceph cluster; ./test --stage storages starts one")


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
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "/tmp/x"], "say what to set"),
        (["set", "/tmp/x", "--at-most"], "say what to set"),
        (["set", "/tmp/x", "--stripe-count", "0"], "0 is not from 1"),
        (["get"], "Missing argument"),
    ],
)
def test_layout_refuses_wrong_arguments(command: Command, arguments: list[str], words: str) -> None:
    command.fails("layout", *arguments, says=words, status=2)


def test_a_storage_without_layouts_says_so(command: Command, scratch: Path) -> None:
    says = "is not on a storage whose striping Ferry can set; ceph:, pvfs2: and mounted CephFS or Lustre have layouts\n"
    for arguments in (["get", str(scratch)], ["set", "new", "--stripe-count", "2"]):
        command.fails("layout", *arguments, says=says)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("name", "option"), [("nfs", "--disk"), ("ceph", "--memory")])
def test_rig_up_takes_the_options_of_that_rig_only(command: Command, name: str, option: str) -> None:
    command.fails("rig", "up", name, option, says=f"rig up {name} takes no {option}", status=2)


# Of a configuration that is not there.
MISSING = [
    ("ceph:/x?conf=/absent/ceph.conf", "", "of /absent/ceph.conf cannot be used: this file cannot be read"),
    ("ceph:/x", "/absent/ceph.conf", "CEPH_CONF names /absent/ceph.conf, which cannot be read"),
    ("ceph:/x", "", "no Ceph cluster is configured: neither /etc/ceph/ceph.conf nor ~/.ceph/ceph.conf nor"),
]


@pytest.mark.parametrize(("name", "variable", "says"), MISSING, ids=["setting", "variable", "none"])
def test_a_missing_configuration_is_named(command: Command, name: str, variable: str, says: str) -> None:
    """Not as if the file itself were missing."""
    if name == "ceph:/x" and not variable and Path("/etc/ceph/ceph.conf").exists():
        pytest.skip("absent: a machine without /etc/ceph/ceph.conf")
    variables = {"CEPH_CONF": variable, "HOME": str(command.scratch)}
    command.environment |= variables
    (command.scratch / "from").write_bytes(b"abc")
    (command.scratch / "folder").mkdir()
    for words in (
        ["cp", "from", name],
        ["cp", name, "to"],
        ["info", name],
        ["layout", "get", name],
        ["run", "--map", f"folder={name}", "--", "true"],
    ):
        said = command.fails(*words, says=says)
        assert "by ?conf= after the path\n" in said or "by conf=\n" in said, said
    for call in (f"ferry.open({name!r}, 'wb')", f"ferry.load({name!r})"):
        program = f"import ferry\ntry:\n    {call}\nexcept OSError as error:\n    print(error.errno, error)"
        done = run_python(program, **variables)
        assert done.stdout.startswith(f"{errno.EINVAL} "), done
        assert says in done.stdout


@needs_cluster
def test_info(command: Command, folder: str) -> None:
    (MOUNTED / folder / "f").write_bytes(b"abc")
    facts = command.json("info", uri(f"{folder}/f"))["storage"]
    assert (facts["storage"], facts["engine"]) == ("ceph", "libcephfs")
    assert (facts["kind"], facts["size_bytes"], facts["problem"]) == ("file", 3, None)
    assert facts["layout"]["pool"] == "data"
    shown = command.succeeds("info", uri(f"{folder}/f"))
    assert "CephFS (the default one) as client.admin" in shown
    assert "stripe size 4 MiB, stripe count 1, object size 4 MiB, pool data" in shown
    mounted = command.json("info", MOUNTED / folder / "f")
    assert mounted["path"]["layout"] == facts["layout"]
    assert mounted["path"]["file_system"]["type"] == "fuse.ceph-fuse"


@needs_cluster
@pytest.mark.parametrize("by", ["library", "mount"])
def test_layouts(command: Command, folder: str, by: str) -> None:
    def at(name: str) -> str:
        return uri(f"{folder}/{name}") if by == "library" else str(MOUNTED / folder / name)

    settings = ["--stripe-size", "1m", "--stripe-count", "4", "--pool", "small"]
    assert "(file, made)" in command.succeeds("layout", "set", at("f"), *settings)
    got = command.json("layout", "get", at("f"))
    assert got["schema"] == "ferry.layout/1"
    assert (got["layout"]["stripe_bytes"], got["layout"]["stripe_count"]) == (1 << 20, 4)
    assert got["layout"]["pool"] == "small"
    command.fails("layout", "set", at("f"), "--stripe-count", "2", says="only a new file can get a layout")
    command.fails("layout", "set", at("g"), "--stripe-size", "100k", says="multiples of 64 KiB")
    assert not (MOUNTED / folder / "g").exists()
    less = command.succeeds("layout", "set", at("g"), "--stripe-size", "100k", "--at-most")
    assert less.splitlines()[-1].split() == ["reduced", "stripe", "size"]
    (MOUNTED / folder / "d").mkdir()
    command.succeeds("layout", "set", at("d"), "--stripe-count", "3")
    (MOUNTED / folder / "d" / "h").write_bytes(b"x")
    assert command.json("layout", "get", at("d/h"))["layout"]["stripe_count"] == 3


@needs_cluster
def test_copy_there_and_back(command: Command, folder: str) -> None:
    copy_there_and_back(command, lambda name: uri(f"{folder}/{name}"), MOUNTED / folder)


@needs_cluster
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_programs_through_fsspec(folder: str, check: Callable[[str], None]) -> None:
    check(uri(folder).replace("ceph:/", "ceph:///", 1))  # what fsspec takes for a URL
