"""What the reports of all studies say alike."""

from __future__ import annotations

import pytest
from ferry_lab.render.study_text import describe_run
from made_up import placements_document
from msgspec.structs import replace


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("ext4", "/dev/vda", "ext4 on /dev/vda"),
        ("tmpfs", "", "tmpfs"),
        ("", "", "an unknown file system"),
        (None, None, "an unknown file system"),
    ],
)
def test_a_file_system_is_named_as_far_as_it_is_known(kind: str | None, source: str | None, words: str) -> None:
    document = placements_document(writes=False)
    systems = document.environment.file_systems
    known = [] if kind is None else [replace(systems[0], type=kind, source=source)]
    document.environment = replace(document.environment, file_systems=known)
    assert describe_run(document).startswith(f"Study placements on {words}: device CPUs")
