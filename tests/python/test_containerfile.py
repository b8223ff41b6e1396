"""The Containerfile copies what there is, and its page says how to build it."""

from __future__ import annotations

import fnmatch
import re
import tomllib

from support import ROOT

LINES = (ROOT / "Containerfile").read_text().replace("\\\n", " ").splitlines()


def words_of(instruction: str) -> list[list[str]]:
    return [line.split()[1:] for line in LINES if line.startswith(f"{instruction} ")]


def test_it_copies_the_wheels_that_are_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tags = re.search(r"--python-tag (\S+) --abi-tag (\S+) ", (ROOT / "scripts" / "wheels.sh").read_text())
    assert tags is not None
    name = f"{project['name'].replace('-', '_')}-1.0-{tags[1]}-{tags[2]}-manylinux_2_28"
    [pattern] = [words[0] for words in words_of("COPY") if not words[0].startswith("--from=")]
    installed = re.search(r"/opt/ferry/bin/pip install .* /wheels/(.*)$", "\n".join(LINES), re.MULTILINE)
    assert installed is not None
    wheels = [f"{name}_{machine}.whl" for machine in ("x86_64", "aarch64")]
    assert fnmatch.filter(wheels, pattern) == wheels
    for machine, wheel in zip(("x86_64", "aarch64"), wheels, strict=True):
        assert fnmatch.filter(wheels, installed[1].replace('"$(uname -m)"', machine)) == [wheel]


def test_it_copies_between_stages_what_the_first_makes() -> None:
    stages = [words[2] for words in words_of("FROM") if len(words) == 3]
    [(stage, source, target)] = [words for words in words_of("COPY") if words[0].startswith("--from=")]
    assert stage == f"--from={stages[0]}"
    # The scripts of an environment name its path.
    assert source == target
    assert any(f"venv {source}" in " ".join(words) for words in words_of("RUN"))
    assert words_of("ENV") == [[f"PATH={source}/bin:$PATH"]]


def test_it_is_for_the_debian_that_the_project_is_tested_on() -> None:
    assert {words[0] for words in words_of("FROM")} == {"docker.io/library/debian:bookworm-slim"}


def test_its_page_has_the_words_that_build_it() -> None:
    command = next(line.strip("# ") for line in LINES if "podman build" in line)
    assert f"$ {command}\n" in (ROOT / "docs" / "guide" / "containers.md").read_text()
