"""What the reports of all studies say alike."""

from __future__ import annotations

import pytest
from ferry_lab.render.study_text import describe_file_system, describe_place


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("ext4", "/dev/vda", "ext4 on /dev/vda"),
        ("tmpfs", "", "tmpfs"),
        ("", "", "an unknown file system"),
    ],
)
def test_a_file_system_is_named_as_far_as_it_is_known(kind: str, source: str, words: str) -> None:
    system = {"type": kind, "source": source}
    assert describe_file_system(system) == words
    assert describe_place({"environment": {"file_systems": [system]}}) == words


def test_a_study_of_no_file_system() -> None:
    assert describe_place({"environment": {"file_systems": []}}) == "an unknown file system"
