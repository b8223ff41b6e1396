"""The study storages on remote storages; one test needs their servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from documents import validated
from ferry import rig
from ferry.errors import FerryError
from ferry_lab.studies import storages_network
from ferry_lab.studies.storages import COLD, REREAD, Storages, how_to_read, storage_table
from ferry_lab.studies.storages_cells import StoragePlace, size_cells, thread_cells
from ferry_lab.studies.storages_found import Fact, Storage
from ferry_lab.studies.storages_network import network_storages
from made_up import network_storages_found, shown, storages_document
from support import Command

MIB = 1 << 20


@pytest.fixture(name="first")
def _first(tmp_path: Path) -> Storage:
    return Storage("ext4", "ext4 on vda", "ext4", tmp_path, "vda", "virtio_blk", (), {})


@pytest.fixture(name="alone", autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rig is up and nothing is mounted, unless a test says otherwise."""
    monkeypatch.setattr(rig, "uris_up", list)
    monkeypatch.setattr(storages_network, "_mounted", lambda _first: {})


def test_what_is_absent_is_said_with_what_to_do(first: Storage) -> None:
    with network_storages(None, first, MIB) as (found, why):
        assert found == []
    assert list(why) == ["NFS", "CephFS", "PVFS2", "Lustre"]
    assert "ferry rig up nfs starts one" in why["NFS"]
    assert "--storage ceph:/path" in why["CephFS"]
    assert "pvfs2" in why["PVFS2"]
    assert why["Lustre"] == "none is mounted on this machine"


def test_a_storage_that_is_named_must_be_there(first: Storage) -> None:
    nowhere = "nfs://127.0.0.1/x?nfsport=1&mountport=1"
    with (
        pytest.raises(FerryError, match="the NFS server 127.0.0.1 cannot be used"),
        network_storages(nowhere, first, MIB),
    ):
        pass


def test_a_rig_that_does_not_answer_is_left_out_and_said(first: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "uris_up", lambda: ["nfs://127.0.0.1/x?nfsport=1&mountport=1"])
    with network_storages(None, first, MIB) as (found, absent):
        assert found == []
        assert "cannot be used" in absent["NFS of the rig"]


def test_what_is_mounted_is_measured_in_a_folder_of_its_own(
    first: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    monkeypatch.setattr(storages_network, "_mounted", lambda _: {"fuse.ceph-fuse": str(served)})
    with network_storages(None, first, MIB) as (found, _):
        (storage,) = found
        assert (storage.name, storage.label) == ("ceph-mounted", "CephFS (ceph-fuse)")
        assert storage.folder is not None
        assert storage.folder.parent == served
        assert storage.facts["setup"] == Fact("mounted before", declared=True)
    assert list(served.iterdir()) == []


def test_a_mount_that_may_not_be_written_is_said(first: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storages_network, "_mounted", lambda _first: {"lustre": "/none/lustre"})
    with network_storages(None, first, MIB) as (found, absent):
        assert found == []
        assert "does not exist" in absent["lustre at /none/lustre"]


def test_mounts_are_those_of_the_kernels_list(first: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    table = (
        "server:/e /mnt/a\\040b nfs4 rw 0 0\nserver:/f /mnt/c nfs4 rw 0 0\n"
        "mgs:/l /mnt/l lustre rw 0 0\n/dev/vda / ext4 rw 0 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda _path, **_options: table)
    assert storages_network._mounted(first) == {"nfs4": "/mnt/a b", "lustre": "/mnt/l"}
    table += f"ceph-fuse /other fuse.ceph-fuse rw 0 0\nceph-fuse {rig.folder()}/m fuse.ceph-fuse rw 0 0\n"
    assert storages_network._mounted(first)["fuse.ceph-fuse"] == f"{rig.folder()}/m"


def test_rigs_that_are_up_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    program = tmp_path / "rig"
    program.write_text("#!/bin/sh\necho 'nfs   up    nfs://127.0.0.1/f?nfsport=1'\necho 'ceph  down'\n")
    program.chmod(0o755)
    monkeypatch.setattr(rig, "_program", lambda: program)
    assert rig.uris_up() == ["nfs://127.0.0.1/f?nfsport=1"]


def test_a_uri_is_measured_by_ferrys_plainest_calls() -> None:
    by_library, mounted = network_storages_found()
    place = StoragePlace(by_library.name, by_library.folder, by_library.in_memory, by_library.remote)
    cells = thread_cells([place], [1, 2]) + size_cells([place], 4 * MIB)
    assert {(cell.interface, cell.placement) for cell in cells} == {("ferry", "host")}
    assert {cell.path.partition(".")[0] for cell in cells} == {"ceph:/ferry-1"}
    assert all(cell.path.endswith("?conf=/c") for cell in cells)
    place = StoragePlace(mounted.name, mounted.folder, mounted.in_memory, mounted.remote)
    assert {cell.interface for cell in size_cells([place], 4 * MIB)} == {"posix"}


def test_the_report_has_a_row_for_each_and_says_what_is_absent() -> None:
    document = storages_document(network=True)
    cold = {line[0]: line[-1] for line in storage_table(document, COLD, "threads").rows}
    assert cold["CephFS (libcephfs)"] == "client-cold"
    assert cold["Lustre (the kernel)"] == "guest-cold"
    assert "CephFS (libcephfs)" in [line[0] for line in storage_table(document, REREAD, "threads").rows]
    text = shown(Storages(), document, 80)
    assert "Not measured here: NFS: no server is named." in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("note: ")) <= 80
    assert "CephFS (libcephfs) by Ferry's calls, placement host" in how_to_read(document)
    words = {word.label: word.meaning for word in Storages().answer(document).words}
    assert words["CephFS (libcephfs)"] == "by libcephfs: CephFS"
    alone = shown(Storages(), storages_document())
    assert "Not measured here" not in alone
    assert "libcephfs" not in alone


NFS, CEPH = (os.environ.get(f"FERRY_TEST_{name}") for name in ("NFS", "CEPH"))


@pytest.mark.skipif(NFS is None or CEPH is None, reason="absent: no servers; ./test --stage storages starts them")
def test_the_study_measures_the_servers(command: Command, tmp_path: Path) -> None:
    folders = [Path(os.environ[f"FERRY_TEST_{name}_DIRECTORY"]) for name in ("NFS", "CEPH")]
    before = [set(folder.iterdir()) for folder in folders]
    done = command.run(*("study", "storages", "--quick", "--repeats", 2, "--storage", NFS, "--out", "out"), timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    document = validated(command.scratch / "out" / "results.json")
    storages = {one["name"]: one for one in document["settings"]["storages"]}
    assert storages["nfs"]["library"]
    assert storages["ceph-mounted"]["label"] == "CephFS (ceph-fuse)"
    states = {row["id"]: row["cache_state"] for row in document["rows"]}
    assert states[f"threads/cold/nfs/1/{32 * MIB}"] == "client-cold"
    assert states[f"sizes/cold/nfs/1/{4 * MIB}"] == "client-cold"
    labels = [one["label"] for one in document["settings"]["absent"]]
    assert labels[-2:] == ["PVFS2", "Lustre"]
    assert all(row["verified"] for row in document["rows"])
    assert [set(folder.iterdir()) for folder in folders] == before
