"""The study ``interfaces`` on the terminal: by transfer size and clients, counted, the paper."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ferry.sizes import MIB, format_size
from ferry_lab.render.mpi_tables import counted_table, label_of, mean_and_deviation, place_of
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.studies import published
from ferry_lab.studies.interfaces_cells import LABELS, MPIIO, NATIVE, OPERATIONS, POSIX
from ferry_lab.studies.interfaces_findings import METRIC, row_of

Json = dict[str, Any]

# The paper's names; its MPI-IO over the native client is a driver that no packaged MPI library has.
_PAPER = {"posix": POSIX, "mpiio-posix": MPIIO, "native": NATIVE, "mpiio-native": None}


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study."""
    console.print(f"Study interfaces on {place_of(document)}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for operation in OPERATIONS:
        for clients in document["settings"]["clients"]:
            console.print(bandwidth_table(document, operation, clients).shown())
            for sentence in sentences_of(document, operation, clients):
                print_wrapped(console, sentence, "  ")
            console.print()
    for operation in OPERATIONS:
        console.print(counts_table(document, operation).shown())
    console.print(paper_table(document).shown())
    console.print(paper_usage_table().shown())
    for line in absent_lines(document):
        print_wrapped(console, line, "  ")
    for note in document["notes"]:
        print_wrapped(console, f"note: {note}", "  ")


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    settings = document["settings"]
    return (
        f"One shared file ({settings['mpi']}); each client writes and reads a part of its own, call "
        "by call; all clients together move the same, however many they are. A write's time has the "
        "fsync in it; opening and closing are timed apart. MiB/s of all clients together, mean ± "
        "standard deviation over the repeats, as in the paper. Rows named Ferry's views go through "
        "ferry.collective, and are not what the paper calls MPI-IO. Every transfer's contents "
        "verified."
    )


def absent_lines(document: Json) -> list[str]:
    """Says why interfaces are absent, those of the paper too."""
    lines = [f"{LABELS[name]}: absent; {why}." for name, why in document["settings"]["absent"].items()]
    return [
        *lines,
        "The paper's MPI-IO over the native client (mpiio-native): absent; Debian's MPI libraries "
        "have no such driver.",
    ]


def sentences_of(document: Json, operation: str, clients: int) -> list[str]:
    """Returns the conclusion of one table."""
    head = f"{operation.capitalize()}, {clients} clients: "
    return [sentence for sentence in document["conclusions"] if sentence.startswith(head)]


def bandwidth_table(document: Json, operation: str, clients: int) -> Table:
    """Returns bandwidths by transfer size, a line for each interface, absent ones too."""
    settings = document["settings"]
    lines = []
    for name, label in LABELS.items():
        if name in settings["absent"]:
            lines.append([label, *["absent"] * len(settings["transfers_bytes"]), ""])
            continue
        rows = [
            row_of(document["rows"], operation, name, clients, transfer)
            for transfer in settings["transfers_bytes"]
        ]
        cells = [mean_and_deviation(row["metrics"][METRIC]) for row in rows]
        labels = dict.fromkeys(label_of(row) for row in rows)
        lines.append([label, *cells, "; ".join(filter(None, labels))])
    sizes = [format_size(transfer) for transfer in settings["transfers_bytes"]]
    title = f"{operation.capitalize()}, {clients} clients, by transfer size (MiB/s)"
    return Table(title, ["interface", *sizes, ""], lines)


def counts_table(document: Json, operation: str) -> Table:
    """Returns what was counted with the most clients and the largest transfers."""
    settings = document["settings"]
    clients, transfer = settings["clients"][-1], settings["transfers_bytes"][-1]
    rows = [
        (LABELS[name], row_of(document["rows"], operation, name, clients, transfer))
        for name in settings["interfaces"]
    ]
    return counted_table(f"{operation}, {clients} clients, {format_size(transfer)}", rows)


def paper_table(document: Json) -> Table:
    """Returns the paper's bandwidths beside ours of the same interface, with as many clients."""
    settings, lines = document["settings"], []
    numbers = [n for n in published.of_study("interfaces") if n.operation in OPERATIONS]
    sizes = {transfer // MIB: transfer for transfer in settings["transfers_bytes"]}
    largest = settings["transfers_bytes"][-1]
    for number in numbers:
        name = _PAPER[number.system]
        clients, transfer = int(number.threads), sizes.get(int(number.x), largest)
        if name is None or name in settings["absent"]:
            found = "absent"
        elif clients not in settings["clients"]:
            found = "not measured"
        else:
            row = row_of(document["rows"], number.operation, name, clients, transfer)
            found = mean_and_deviation(row["metrics"][METRIC])
            if transfer != int(number.x) * MIB:
                found += f" (with {format_size(transfer)})"
        deviation = number.note.split("sd ")[1].rstrip(")")
        value = number.value * 1e6 / MIB
        published_text = f"{value:.0f} ± {float(deviation) * 1e6 / MIB:.0f}"
        lines.append([number.system, number.operation, f"{number.x:g} MB", published_text, found])
    title = "Paper 002, six clients and six servers of PVFS2 on InfiniBand, beside ours (MiB/s)"
    return Table(title, ["interface", "", "call", "published", "here"], lines, left=2)


def paper_usage_table() -> Table:
    """Returns the paper's context switches and CPU shares."""
    lines = []
    for name in _PAPER:
        found = {n.operation: n for n in published.of_study("interfaces") if n.system == name}
        lines.append(
            [
                name,
                f"{found['context switches'].value:,.0f}",
                *(f"{found[f'cpu {kind}'].value:g} %" for kind in ("user", "system")),
            ]
        )
    title = "Paper 002: what its interfaces cost each machine (24 GB, calls of 256 MB)"
    return Table(title, ["interface", "context switches", "CPU user", "system"], lines)
