"""The study storages: what it finds, its plan and its conclusions."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ferry.errors import FerryError
from ferry.files import outermost
from ferry.sizes import GIB, MIB
from ferry_lab.run.mounts import Mounted, Mounts
from ferry_lab.run.study import Group
from ferry_lab.stats.comparing import where
from ferry_lab.studies import published, storages, storages_found
from ferry_lab.studies.file_sizes import QUICK_REPEATS
from ferry_lab.studies.storages import COLD, MANY, REREAD, STORAGES, WRITE, WRITE_SYNC, Storages, storage_table
from ferry_lab.studies.storages_cells import StoragePlace
from ferry_lab.studies.storages_found import Fact, found_storages
from made_up import OPTIONS, shown, storages_document
from made_up import storages_found as made_up_storages


# ---- what there is -------------------------------------------------------------------------------


class FakeMounts(Mounts):
    """Mounts nothing: folders represent file systems."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.refused = refused
        self.down = False

    def memory(self, kind: str, folder: Path, limit_bytes: int) -> Mounted:
        if kind in self.refused:
            raise FerryError(f"mounting {kind}: no")
        folder.mkdir()
        return Mounted(kind, folder, f"size={limit_bytes}", None, (f"mount {kind}",), 0.0001)

    def loop(self, kind: str, folder: Path, image: Path, size_bytes: int) -> Mounted:
        if kind in self.refused:
            raise FerryError(f"mkfs.{kind} failed: no")
        folder.mkdir()
        assert size_bytes >= 320 * MIB
        return Mounted(kind, folder, "", image, ("one", "two"), 0.25)

    def remount(self, mounted: Mounted) -> bool:
        return mounted.image is not None

    def take_down(self) -> None:
        self.down = True


@contextmanager
def found(
    folder: Path, mounts: Mounts | None, monkeypatch: pytest.MonkeyPatch, kind: str = "ext4"
) -> Iterator[tuple[list[storages_found.Storage], list[str]]]:
    """Storages beside a folder whose file system is said to be ``kind``."""
    device = {"disk": "vda", "driver": "virtio_blk"} if kind == "ext4" else None
    system = {"type": kind, "source": "/dev/vda", "block_device": device}
    info = {"path": {"file_system": system, "direct_io": {"possible": device is not None}}}
    monkeypatch.setattr(storages_found, "read_info", lambda _: info)
    monkeypatch.setattr(storages_found, "why_no_loop", lambda _: None)
    notes: list[str] = []
    with found_storages(str(folder), MIB, mounts, notes) as storages_there:
        yield storages_there, notes


def test_root_finds_memory_and_loop_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = FakeMounts("btrfs")
    with found(tmp_path, mounts, monkeypatch) as (there, notes):
        assert [storage.name for storage in there] == ["ext4", "tmpfs", "ramfs", "xfs-loop"]
        assert [storage.in_memory for storage in there] == [False, True, True, False]
        assert [s.paper_system for s in there] == ["virtio", "tmpfs", "ramfs", None]
        assert all(storage.folder.is_dir() for storage in there)
        assert notes == ["no btrfs: mkfs.btrfs failed: no"]
        disk, tmpfs, ramfs, loop = (storage.facts for storage in there)
        assert all(set(facts) == set(storages_found.PROPERTIES) for facts in (disk, tmpfs, loop))
        assert (disk["setup"], str(disk["persistent"])) == (Fact("none"), "yes (declared)")
        assert (str(ramfs["setup"]), str(ramfs["persistent"])) == ("1 step, 0.1 ms", "no")
        assert (str(loop["setup"]), str(loop["persistent"])) == ("2 steps, 250 ms", "yes")
        assert str(ramfs["root"]) == str(loop["root"]) == "yes"
        assert loop["largest"].value.endswith("iB image")
        assert not mounts.down
    assert mounts.down
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with found(tmp_path, FakeMounts("ramfs", "xfs"), monkeypatch) as (there, notes):
        assert [storage.name for storage in there] == ["ext4", "tmpfs", "btrfs-loop"]
        assert notes == ["no ramfs: mounting ramfs: no", "no xfs: mkfs.xfs failed: no"]


def test_others_find_the_tmpfs_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(storages_found, "SHARED_MEMORY", str(shared))
    with found(tmp_path, None, monkeypatch) as (there, notes):
        # The stand-in says ext4 of that folder too: no tmpfs, so it does not count.
        assert [storage.name for storage in there] == ["ext4"]
        assert notes[0].startswith("only root may mount")
    monkeypatch.setattr(storages_found, "SHARED_MEMORY", str(tmp_path / "gone"))
    with found(tmp_path, None, monkeypatch) as (there, notes):
        assert notes[1].startswith("no tmpfs: the folder")


def test_a_folder_in_memory_has_no_disk_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with found(tmp_path, FakeMounts(), monkeypatch, "tmpfs") as (there, notes):
        assert [storage.name for storage in there] == ["tmpfs", "ramfs"]
        assert [storage.medium for storage in there] == [None, None]
        assert notes == ["tmpfs lies in memory: no file systems on loop devices in it"]


def test_what_is_mounted_for_a_study_lies_in_its_scratch_folder() -> None:
    """Going on finds a folder of another name; what is in it has the same place."""
    folders = ["/tmp/ferry-a/tmpfs", "/tmp/ferry-a", "/dev/shm/ferry-b", "/tmp/ferry-ab"]
    assert outermost(folders) == ["/tmp/ferry-a", "/tmp/ferry-ab", "/dev/shm/ferry-b"]


def test_the_largest_file_is_measured_without_writing(tmp_path: Path) -> None:
    assert storages_found._largest_file_bytes(tmp_path) >= GIB
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_everybody_needs_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    with found(tmp_path, None, monkeypatch) as (there, _):
        assert there[0].facts["root"] == Fact("no")
    tmp_path.chmod(0o755)
    monkeypatch.setattr(storages_found.os, "geteuid", lambda: 0)
    with found(tmp_path, None, monkeypatch) as (there, _):
        assert there[0].facts["root"] == Fact("yes")


# ---- the plan ------------------------------------------------------------------------------------


def groups(threads: list[int], **changes: object) -> dict[str, Group]:
    places = [StoragePlace(s.name, s.folder, s.in_memory) for s in made_up_storages()]
    options = dataclasses.replace(OPTIONS, **changes)
    return storages.make_groups(options, places, storages.SIZES, threads, places[0])


def test_every_thread_has_a_file_of_its_own() -> None:
    cells = groups([1, 2, 4])["threads"].cells
    assert len({cell.id for cell in cells}) == len(cells)
    for cell in cells:
        assert cell.file_per_thread
        assert cell.total_bytes == cell.threads * 32 * MIB
        assert cell.transfer_bytes == 4 * MIB
        assert cell.cold == (cell.axes["operation"] == "cold")
        assert (cell.sync == "fsync") == (cell.operation == "write")
    of_memory = {cell.axes["operation"] for cell in cells if cell.axes["storage"] == "tmpfs"}
    assert of_memory == {"write", "reread"}, "nothing in memory is cold"


def test_sizes_and_repeats() -> None:
    made = groups([1, 2])
    assert (storages.SIZES[0], storages.SIZES[-1]) == (4 * MIB, GIB)
    assert made["threads"].repeats == made["files of 4 MiB"].repeats == 20
    assert made["files of 1 GiB"].repeats < made["files of 256 MiB"].repeats < 20
    assert {group.repeats for group in groups([1], repeats=7).values()} == {7}
    assert max(g.repeats for g in groups([1], quick=True).values()) == QUICK_REPEATS


def test_the_disk_itself_is_measured_past_every_cache() -> None:
    cells = groups([1])["raw medium"].cells
    assert all(cell.direct and cell.queue_depth == 8 for cell in cells)
    assert [cell.cold for cell in cells] == [False, True]
    assert [cell.rewrite for cell in cells] == [True, False]


def test_threads_are_powers_of_two_for_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus, most in ((1, 4), (2, 4), (3, 4), (8, 16), (100, 64)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cpus: set(range(n)))
        assert storages.thread_counts()[-1] == most
        assert storages.thread_counts()[0] == 1


# ---- findings ------------------------------------------------------------------------------------

# Milliseconds for a MiB: more threads make the disk twice as fast, and the loop device slower.
TIMES = {
    **{"ext4/1": 4.0, "ext4/again": 4.0, "ext4/2": 2.0, "ext4/4": 2.0, "ext4/sizes": 4.0},
    **{"tmpfs": 0.5, "ext4/disk": 1.0, "xfs-loop/2": 5.0, "xfs-loop/4": 5.0, "xfs-loop": 4.0},
}


def test_conclusions_follow_from_the_numbers() -> None:
    sentences = storages_document(TIMES).conclusions
    threads = "Write, more threads than one: "
    for sentence in (
        f"{threads}ext4 on vda is faster with 2 and 4 threads, 2.00 times the bandwidth of one thread.",
        f"{threads}tmpfs is within 5 % of one thread with 2 and 4 threads.",
        f"{threads}xfs (loop) is slower with 2 and 4 threads, 0.80 times the bandwidth of one thread.",
        "Write, one thread: tmpfs is faster, 8.00 times the bandwidth of ext4 on vda; xfs (loop) is "
        "within 5 % of ext4 on vda.",
        "Re-read, one thread: tmpfs is faster, 8.00 times the bandwidth of ext4 on vda; xfs (loop) is "
        "within 5 % of ext4 on vda.",
        "Guest-cold read, one thread: xfs (loop) is within 5 % of ext4 on vda.",
    ):
        assert sentence in sentences
    assert not any("cold read" in s and "tmpfs" in s for s in sentences)


def test_noise_is_no_difference() -> None:
    document = storages_document(TIMES)
    for row in document.rows:
        if (row.axes["storage"], row.axes["part"]) == ("ext4", "again"):
            for index, sample in enumerate(row.repeats):
                sample.io_ns = int(sample.io_ns * (0.1 if index % 2 else 10))
    document.comparisons = Storages().compare(document.rows)
    assert storages.findings_of(document, MANY)[1].sentences()[-1] == (
        "Write, more threads than one: no difference measured between ext4 on vda and one thread (noise > 100 %)."
    )


def test_cold_rows_of_a_virtual_machine_are_guest_cold() -> None:
    for virtual, state in ((True, "guest-cold"), (False, "cold")):
        document = storages_document(TIMES, virtual_machine=virtual)
        rows = where(document.rows, operation="cold")
        assert {row.cache_state for row in rows} == {state}
        assert {sample.cache_state for sample in rows[0].repeats} == {"cold"}
        name = "Guest-cold read" if virtual else "Cold read"
        table = storage_table(document, COLD, "threads")
        assert table.title.startswith(f"{name} by threads")
        assert [line[-1] for line in table.rows] == [state, "hot", state]


def test_tables_hold_every_number() -> None:
    document = storages_document(TIMES)
    assert storage_table(document, WRITE, "threads").rows[0] == [*("ext4 on vda", "250 ±0%", "500 ±0%", "500 ±0%", "")]
    assert storage_table(document, REREAD, "sizes").rows[1][1:-1] == ["2000 ±0%"] * 5
    # A flush and an fsync take as long as the calls there.
    assert storage_table(document, WRITE_SYNC, "sizes").rows[1][1:-1] == ["667 ±0%"] * 5
    assert [line[1] for line in storages.disk_section(document).tables[0].rows] == ["333 ±0%", "1000 ±0%"]
    summary = {line[0]: line[1:] for line in storages.summary_table(document).rows}
    assert summary["write, best of many"][0] == "500 ±0% (2)"
    assert summary["write, more threads"] == ["2.00× with 2", "none measured", "slower with any"]
    assert summary["guest-cold read, one thread"][1] == "2000 ±0%", "that of the re-read"


def test_the_properties_are_those_of_the_papers_table() -> None:
    table = storages.property_table(storages_document(TIMES))
    assert [line[0] for line in table.rows] == list(storages_found.PROPERTIES.values())
    assert table.columns == ["property", "ext4 on vda", "tmpfs", "xfs (loop)"]
    (swap,) = [line for line in table.rows if line[0] == "usable as swap"]
    assert swap[1:] == ["yes (declared)"] * 3


def test_every_published_number_is_shown() -> None:
    table = storages.paper_table(storages_document(TIMES))
    assert len(table.rows) == len(published.of_study("storages")) == 36
    by_test = {tuple(line[:3]): line[4:6] for line in table.rows}
    # 220 MB/s are 210 MiB/s; the virtio disk here takes 4 ms for a MiB.
    assert by_test["virtio", "write", "one"] == ["210", "250"]
    assert by_test["virtio", "write", "best of many"] == ["1907", "500"]
    assert by_test["tmpfs", "cold read", "one"] == ["1526", "2000"]
    assert by_test["lustre", "write", "best of many"][1] == "not here"


def test_the_best_number_of_threads() -> None:
    document = storages_document(TIMES)
    assert WRITE.best_of_many(document, "ext4").threads == 2
    assert COLD.best_of_many(document, "tmpfs").axes["operation"] == "reread"


def test_the_answer_says_what_the_numbers_say() -> None:
    document = storages_document(TIMES)
    answer = Storages().answer(document)
    storages_say, threads_say, medium_says = answer.first_lines()
    assert storages_say == (
        "One thread, the fastest beside ext4 on vda: write+sync: tmpfs 8 times; write: tmpfs 8 "
        "times; re-read: tmpfs 8 times. Not compared: guest-cold read of tmpfs."
    )
    assert threads_say.startswith("More threads than one, at best, bring write+sync 2.0 times (ext4 on vda);")
    assert medium_says == (
        "Of what vda itself gives by direct I/O, ext4 on vda gets with its best number of "
        "threads: write+sync reaches 50 % of 333 MiB/s, guest-cold read reaches 50 % of 1000 MiB/s."
    )
    figures = [section.figure for section in Storages().sections(document) if section.figure]
    assert [figure.name for figure in figures] == ["table-1", "threads", "file-sizes"]


def test_the_headline_claims_no_more_than_was_compared() -> None:
    """Cold reads of the disk take seven times as long as tmpfs; nothing else differs."""
    document = storages_document()
    for point in document.comparisons:
        if point.question == STORAGES:
            point.finding, point.ratio_median = "no_difference", 7.0
    headline = Storages().answer(document).conclusion[0]
    assert headline == (
        "One thread: the noise hides any difference from ext4 on vda at 7 points, whose medians are "
        "7.00 times its bandwidth. Not compared: guest-cold read of tmpfs."
    )
    alone = storages_document()
    alone.settings["storages"] = alone.settings["storages"][:1]
    headline = Storages().answer(alone).conclusion[0]
    assert headline == "ext4 on vda is the only storage that was measured."
    assert "one thread:" not in shown(Storages(), alone)


def test_without_a_disk_nothing_is_said_of_one() -> None:
    document = storages_document(TIMES, raw=False)
    assert Storages().answer(document).conclusion[2].startswith("There is no disk below")
    assert "itself" not in shown(Storages(), document, 110)
