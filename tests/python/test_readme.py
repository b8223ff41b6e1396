"""The README's programs do what it says; the guide's first program is the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy
import pytest
import safetensors.numpy
from ferry import programs

from support import ROOT, run_program


def block(page: str, language: str) -> str:
    """The first code block of a page in that language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} has no {language}"
    return found[1]


def test_the_device_program_prints_the_file(tmp_path: Path) -> None:
    program = block("README.md", "cpp")
    assert block("docs/guide/first-device-program.md", "cpp") == program
    build = programs.find_program().parent
    libraries = re.search(r"^Libs: .*-lferry (.*)$", (build / "ferry.pc").read_text(), re.MULTILINE)
    assert libraries is not None
    text = tmp_path / "text"
    text.write_text("what is in the file\n" * 100)
    assert program.count('"/etc/os-release"') == 1
    source = tmp_path / "program.cpp"
    source.write_text(program.replace("/etc/os-release", str(text)))
    command = [os.environ.get("CXX", "c++"), "-std=c++20", f"-I{ROOT}/include", str(source)]
    command += ["-o", str(tmp_path / "program"), str(build / "libferry.a"), *libraries[1].split()]
    subprocess.run(command, check=True)
    assert run_program(tmp_path / "program", check=True).stdout == text.read_text()


def test_the_python_program_reads_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = {f"part-{i}.safetensors": {f"tensor{i}": numpy.arange(i + 3.0)} for i in range(3)}
    for name, tensors in shards.items():
        safetensors.numpy.save_file(tensors, tmp_path / name)
    names = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    matrices = numpy.arange(2 * 1024 * 1024, dtype=float)
    matrices.tofile(tmp_path / "matrix")
    program = block("README.md", "python")
    for path in ("model.safetensors.index.json", "/data/matrix"):
        assert program.count(f'"{path}"') == 1
        program = program.replace(path, str(tmp_path / Path(path).name))
    shown: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), shown)
    weights = shown["weights"]
    assert isinstance(weights, dict)
    assert weights.keys() == names.keys()
    for tensors in shards.values():
        for name, tensor in tensors.items():
            numpy.testing.assert_array_equal(weights[name], tensor)
    target = shown["target"]
    assert isinstance(target, numpy.ndarray)
    numpy.testing.assert_array_equal(target.ravel(), matrices[1024 * 1024 :])
    assert capsys.readouterr().out == f"{target.nbytes}\n"
