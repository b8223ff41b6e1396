#!/usr/bin/env python3
"""Compares the ABI of libferry.so.0, or of libferry_mpi.so.0, with the committed list of it.

usage: check_abi.py [--write] HEADER LIBRARY LIST

The list has the library's soname, every symbol it exports with its version and declaration, and the
constants, sizes and offsets that programs compile in. Programs that are linked with the library rely
on all of it. --write adds to the list, functions only with the version of the next release. It
refuses to change or remove what is in the list: that needs another soname.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# The versions of functions that the next release adds; the others are released and closed.
NEXT_VERSIONS = ("FERRY_0", "FERRY_MPI_0")

STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;", re.DOTALL)
FIELD = re.compile(r"(\w+)(?:\[\w+\])?;")
ENUM = re.compile(r"\benum \{(.*?)\};", re.DOTALL)
FUNCTION = re.compile(r"^(?:const )?\w+\*? ?\*?(ferry_\w+)\(([^()]*)\);", re.MULTILINE)
CALLBACK = re.compile(r"^typedef .*\(\*(\w+)\)\(.*\);", re.MULTILINE)


class AbiError(Exception):
    """The library cannot be listed."""


def without_comments(text: str) -> str:
    return re.sub(r"//.*", "", text)


def declarations(header: str) -> dict[str, str]:
    """The declaration of each function, in one line."""
    found = {match[1]: " ".join(match[0].split()) for match in FUNCTION.finditer(header)}
    named = set(re.findall(r"\b(ferry_\w+)\(", header))
    if missed := named - found.keys():
        raise AbiError(f"declarations that this script does not understand: {', '.join(sorted(missed))}")
    return found


def exported(library: Path) -> dict[str, str]:
    """The version of each symbol that the library defines; "" for none."""
    command = ["nm", "-D", "--with-symbol-versions", "--defined-only", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = {}
    for line in lines:
        _, kind, word = line.split()
        if kind != "A":  # the name of a version
            name, _, version = word.partition("@")
            symbols[name] = version.lstrip("@")
    return symbols


def soname(library: Path) -> str:
    text = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout
    found = re.search(r"soname: \[(.*)\]", text)
    if found is None:
        raise AbiError(f"{library} has no soname")
    return found[1]


def compiled_in(path: Path, header: str) -> list[str]:
    """Sizes, offsets and constants, as the compiler sees them."""
    lines = []
    for struct, body in STRUCT.findall(header):
        fields = FIELD.findall(body)
        if fields[0] == "struct_bytes":  # it may grow
            lines.append(f'printf("struct {struct}: begins with its size\\n");')
        else:
            lines.append(f'printf("struct {struct}: %zu bytes\\n", sizeof({struct}));')
        for field in fields:
            place = f"offsetof({struct}, {field}), sizeof((({struct}*)0)->{field})"
            lines.append(f'printf("struct {struct}: {field} at %zu, %zu bytes\\n", {place});')
    for body in ENUM.findall(header):
        for name in re.findall(r"\b(FERRY_\w+)", body):
            lines.append(f'printf("constant {name} = %d\\n", (int){name});')
    program = f'#include <stddef.h>\n#include <stdio.h>\n#include "{path.resolve()}"\n'
    program += "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "sizes.c"), Path(folder, "sizes")
        source.write_text(program)
        subprocess.run([os.environ.get("CC", "cc"), str(source), "-o", str(built)], check=True)
        return subprocess.run([built], check=True, capture_output=True, text=True).stdout.splitlines()


def abi(path: Path, library: Path) -> list[str]:
    """The ABI in lines."""
    header = without_comments(path.read_text())
    declared = declarations(header)
    symbols = exported(library)
    if symbols.keys() != declared.keys():
        extra, absent = symbols.keys() - declared.keys(), declared.keys() - symbols.keys()
        raise AbiError(
            f"{library.name} exports what {path.name} does not declare: {', '.join(sorted(extra)) or 'nothing'}; "
            f"declared and not exported: {', '.join(sorted(absent)) or 'nothing'}"
        )
    if plain := sorted(name for name, version in symbols.items() if not version):
        raise AbiError(f"symbols without a version: {', '.join(plain)}")
    lines = [f"soname {soname(library)}"]
    lines += [f"{version} {declared[name]}" for name, version in sorted(symbols.items())]
    lines += [" ".join(match[0].split()) for match in CALLBACK.finditer(header)]
    return lines + compiled_in(path, header)


def is_closed(line: str) -> bool:
    """A function in a version that is released."""
    return re.match(r"FERRY_\S+ \w.*\(", line) is not None and line.split()[0] not in NEXT_VERSIONS


def main(arguments: list[str]) -> int:
    write = arguments[:1] == ["--write"]
    words = arguments[1:] if write else arguments
    if len(words) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    header, library, list_path = map(Path, words)
    try:
        found = abi(header, library)
    except (AbiError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    listed = list_path.read_text().splitlines() if list_path.exists() else []
    gone, new = [[line for line in one if line not in other] for one, other in ((listed, found), (found, listed))]
    if listed and listed[0] != found[0]:
        refusal = ""
    elif gone:
        refusal = "programs that are linked with it would break; undo that, or change the soname"
    elif closed := [line for line in new if is_closed(line)]:
        refusal = f"functions are added in version {' or '.join(NEXT_VERSIONS)}, and not: {closed}"
    else:
        refusal = ""
    if write and not refusal:
        list_path.write_text("\n".join(found) + "\n")
    elif gone or new:
        print("\n".join([*(f"- {line}" for line in gone), *(f"+ {line}" for line in new)]))
        why = refusal or "add what is new with --write"
        print(f"the ABI of {library.name} is not as {list_path} has it: {why}")
        return 1
    print(f"{len(found)} lines of the ABI of {found[0].split()[1]} are as listed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
