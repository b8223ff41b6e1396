"""Mutated results of other tools and of ferry, and profiles: each is read or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomli_w
from ferry.errors import FerryError
from ferry_lab.importers import importing
from ferry_lab.tune import profile

from mutations import Mutator, refuses_politely

DATA = Path(__file__).resolve().parent / "data"
FILES = [path.read_bytes() for path in sorted(DATA.glob("*.json"))]
DOCUMENTS = [json.loads(data) for data in FILES if data.startswith(b"{")]
PROFILE = {
    "schema": profile.SCHEMA,
    "machine": {"cpu_model": "X", "cpus_usable": 2},
    "storages": [
        {"device": "cpu", "measured": "now", "file_system": "ext4", "block_device": "vda", "page_bytes": 65536}
    ],
}


def test_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, written = tmp_path / "results.json", tmp_path / "imported.json"

    def use(data: bytes) -> None:
        path.write_bytes(data)
        importing.run([str(path)], str(written), overwrite=True)
        # What was imported can be imported.
        again = importing.run([str(written)], None, overwrite=True)
        assert again is None
        capsys.readouterr()

    def make(mutator: Mutator) -> bytes:
        whole = json.dumps(mutator.of_json(DOCUMENTS)).encode()
        return mutator.of_bytes(FILES) if len(whole) % 8 == 0 else whole

    refuses_politely(use, make, 60, FerryError)


def test_profiles(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    machine, entry = PROFILE["machine"], PROFILE["storages"][0]  # type: ignore[index]

    def use(data: bytes) -> None:
        path.write_bytes(data)
        before = profile.read(str(path))
        profile.merge(before, machine, entry)  # type: ignore[arg-type]

    refuses_politely(use, lambda mutator: mutator.of_bytes([tomli_w.dumps(PROFILE).encode()]), 200, FerryError)
