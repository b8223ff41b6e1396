"""The study ``interfaces``: the fastest way into one shared file (after Tirupati Nagaraj 2009).

2, 4 and 6 clients write and read one file, each a part of its own, in calls of 1 MiB to 1 GiB. The
total is the same for any number of clients. The axes of its rows are ``operation``, ``interface`` (one of
LABELS, or ``again``: the first one again, for the noise), ``clients`` and ``transfer_bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ferry.sizes import GIB, MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import Finding, Findings
from ferry_lab.render.mpi_tables import counted_table, label_of, mean_and_deviation, memory_bytes
from ferry_lab.render.sections import NOISE, Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, Machine, RanksRow, Row
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import row_at, where
from ferry_lab.studies import published
from ferry_lab.studies.ranks_cells import beside, ranks_cell

CLIENTS = [2, 4, 6]
TRANSFERS = [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
QUICK_TRANSFERS = [MIB, 4 * MIB]
# Multiples of every transfer size times 2, 4 and 6.
QUICK_TOTAL_BYTES = 48 * MIB
TOTAL_BYTES = 768 * MIB

OPERATIONS = ("write", "read")
POSIX, MPIIO, VIEWS, NATIVE_VIEWS, NATIVE = ("posix", "mpiio-posix", "views-posix", "views-native", "native")
AGAIN = "again"
LABELS = {
    POSIX: "POSIX",
    MPIIO: "MPI-IO over POSIX",
    VIEWS: "Ferry's views over POSIX",
    NATIVE_VIEWS: "Ferry's views over the native client",
    NATIVE: "native client",
}
_IN_CELLS = {POSIX: "posix", MPIIO: "mpiio", VIEWS: "ferry", NATIVE_VIEWS: "ferry", NATIVE: "native"}
_MEANINGS = {
    POSIX: "each client its own part, by pread and pwrite",
    MPIIO: "the MPI library's own MPI-IO, independent calls",
    VIEWS: "file views of ferry.collective on the mounted file system, collective calls",
    NATIVE_VIEWS: "the same on the storage of --storage; not the paper's MPI-IO driver",
    NATIVE: "each client its own part, through the storage's client library",
}
_METRIC = "bandwidth_with_sync_mib_per_s"


class Interfaces(RanksStudy):
    name = "interfaces"
    repeats = 6
    quick_repeats = judge.FINDING_PAIRS_MIN

    def places(self, options: StudyOptions) -> list[str]:
        """Returns the folder and the storage, or one of them."""
        # What is mounted elsewhere is not the storage of --storage.
        folder = options.storage is None or options.folder_given
        storage = [] if options.storage is None else [options.storage]
        return [options.folder, *storage] if folder else storage

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        transfers = QUICK_TRANSFERS if options.quick else fitting(TRANSFERS, notes)
        totals = {transfer: total_bytes(transfer, options.quick) for transfer in transfers}
        settings = {
            "clients": CLIENTS,
            "transfers_bytes": transfers,
            "totals_bytes": list(totals.values()),
            "larger_than_caches": min(totals.values()) > memory_bytes(),
        }

        def cells(places: Sequence[Place]) -> dict[str, list[RanksCell]]:
            folder = places[0] if options.storage is None or options.folder_given else None
            storage = None if options.storage is None else places[-1]
            # Which there are is known now.
            interfaces, settings["absent"] = present(folder, storage)
            settings["interfaces"] = list(interfaces)
            return {
                f"{operation}, {clients} clients, {format_size(transfer)}": cells_of(
                    interfaces, operation, clients, transfer, totals[transfer]
                )
                for operation in OPERATIONS
                for clients in CLIENTS
                for transfer in transfers
            }

        return RanksPlan(3 * max(totals.values()), settings, cells)

    def notes(self, rows: Sequence[RanksRow], machine: Machine) -> list[str]:
        """Says what the totals leave to caches, and where clients had to share CPUs."""
        said = (
            f"within the caches: the data is smaller than the memory ({format_size(machine.memory_bytes)}), so writes "
            "count with their fsync, and reads are of a file that the kernel has dropped from its page cache"
        )
        within = min(row.total_bytes for row in rows) <= machine.memory_bytes
        return [said] * within + super().notes(rows, machine)

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets each interface beside the first one, at every point."""
        first = rows[0].axes["interface"]
        return [
            beside("interface_and_posix", _METRIC, row, rows, row.axes, "interface", (first, AGAIN))
            for row in rows
            if row.axes["interface"] not in (first, AGAIN)
        ]

    def answer(self, document: Document) -> Answer:
        settings = document.settings
        conclusion = [_highest(document, operation) for operation in OPERATIONS]
        for operation in OPERATIONS:
            found = findings_of(document, operation, settings["clients"][-1])
            winners = "; ".join(finding.winners() for finding in found.findings)
            conclusion.append(f"{found.about}: {winners}.")
        absent = [f"{LABELS[name]}: absent; {why}." for name, why in settings["absent"].items()]
        return Answer(
            "Which interface is fastest for many clients and one shared file?",
            conclusion,
            [
                f"One shared file ({settings['mpi']}); each client writes and reads a part of its "
                "own, call by call; all clients together move the same, however many they are. A "
                "write's time has the fsync in it; opening and closing are timed apart. MiB/s of "
                "all clients together, mean ± standard deviation over the repeats, as in the paper. "
                f"{NOISE}",
                *absent,
            ],
            [Word(name, LABELS[name], _MEANINGS[name]) for name in settings["interfaces"]],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        return [
            *(_by_size(document, operation) for operation in OPERATIONS),
            _counted(document),
            published.beside_the_paper(
                "002",
                ": machines of their own for each client, and data larger than all memories. Ferry's "
                "views are not what the paper calls MPI-IO. Its MPI-IO over the native client "
                "(mpiio-native) is absent: Debian's MPI libraries have no such driver.",
                [paper_table(document), _paper_usage_table()],
            ),
        ]


# ---- what is measured ----------------------------------------------------------------------------


def fitting(transfers: Sequence[int], notes: list[str]) -> list[int]:
    """Returns the transfer sizes whose data, which all clients hold, needs a quarter of the memory."""
    most = memory_bytes() // 4
    kept = [transfer for transfer in transfers if total_bytes(transfer, False) <= most]
    left_out = [format_size(transfer) for transfer in transfers if transfer not in kept]
    if left_out:
        notes.append(
            f"calls of {' and '.join(left_out)} are left out: six clients would hold more than a quarter of the memory"
        )
    return kept


def total_bytes(transfer: int, quick: bool) -> int:
    """Returns the data of all clients: every number of them has whole calls of that size."""
    return max(QUICK_TOTAL_BYTES if quick else TOTAL_BYTES, 12 * transfer)  # divisible by 2, 4 and 6 clients


def present(folder: Place | None, storage: Place | None) -> tuple[dict[str, Place], dict[str, str]]:
    """Returns where the files of those lie that can be measured, and why each of the others cannot."""
    there, absent = {}, {}
    for name in LABELS:
        place = storage if name in (NATIVE_VIEWS, NATIVE) else folder
        if place is not None:
            there[name] = place
        elif folder is None:
            absent[name] = "name with --dir where the storage is mounted"
        else:
            absent[name] = "name a storage with a client library by --storage, such as ceph:/"
    return there, absent


def cells_of(
    interfaces: Mapping[str, Place], operation: str, clients: int, transfer: int, total: int
) -> list[RanksCell]:
    """Returns every interface at one point, and the first of them again, for the noise."""
    first = next(iter(interfaces))
    return [
        ranks_cell(
            place,
            f"interfaces.{operation}",
            {"operation": operation, "interface": name, "clients": clients, "transfer_bytes": transfer},
            interface=_IN_CELLS[first if name == AGAIN else name],
            ranks=clients,
            transfer_bytes=transfer,
            total_bytes=total,
            cold=operation == "read",
        )
        for name, place in {**interfaces, AGAIN: interfaces[first]}.items()
    ]


# ---- what it shows -------------------------------------------------------------------------------


def _at_most(document: Document, operation: str, name: str) -> Row:
    """Returns the row with the most clients and the largest transfers."""
    clients, transfer = (document.settings[axis][-1] for axis in ("clients", "transfers_bytes"))
    there = {"operation": operation, "interface": name, "clients": clients}
    return row_at(document.rows, **there, transfer_bytes=transfer)


def findings_of(document: Document, operation: str, clients: int) -> Findings:
    """Returns how the interfaces compare with the first one, by transfer size."""
    first, *others = document.settings["interfaces"]
    there = where(document.comparisons, operation=operation, clients=clients)
    about = f"{operation.capitalize()}, {clients} clients"
    return Findings(about, [Finding(LABELS[n], LABELS[first], where(there, interface=n)) for n in others])


def _highest(document: Document, operation: str) -> str:
    settings = document.settings
    names, clients = settings["interfaces"], settings["clients"]
    means = {n: _at_most(document, operation, n).metric(_METRIC).mean for n in names}
    best = max(names, key=means.__getitem__)
    points = where(document.comparisons, operation=operation)
    decided = sum(point.finding in ("faster", "slower") for point in points)
    return (
        f"{operation.capitalize()}, {clients[-1]} clients, "
        f"{format_size(settings['transfers_bytes'][-1])}: {LABELS[best]} has the highest mean "
        f"({means[best]:.0f} MiB/s); {decided} of {len(points)} points differ from "
        f"{LABELS[names[0]]} by more than the noise."
    )


def _short(name: str) -> str:
    return LABELS[name].replace("Ferry's views over", "views,")


def _by_size(document: Document, operation: str) -> Section:
    settings = document.settings
    panels = []
    for clients in settings["clients"]:
        there = where(document.rows, operation=operation, clients=clients)
        series = [
            Series.of_rows(n, _short(n), where(there, interface=n), "transfer_bytes", _METRIC)
            for n in settings["interfaces"]
        ]
        panels.append(Panel(f"{clients} clients", series))
    figure = Figure(
        operation,
        Curves(panels, columns=2),
        "Curves of bandwidth by transfer size, a line for each interface; the tables below have the numbers.",
        f"{operation.capitalize()}: bandwidth of all clients together by transfer size. Lines are "
        "medians, shaded are their 95 % bounds. Both axes are logarithmic.",
    )
    return Section(
        operation.capitalize(),
        figure=figure,
        findings=[findings_of(document, operation, clients) for clients in settings["clients"]],
        tables=[_bandwidth_table(document, operation, n) for n in settings["clients"]],
    )


def _bandwidth_table(document: Document, operation: str, clients: int) -> Table:
    """Returns a line for each interface, absent ones too."""
    settings = document.settings
    transfers, lines = settings["transfers_bytes"], []
    for name, label in LABELS.items():
        rows = where(document.rows, operation=operation, interface=name, clients=clients)
        cells = [mean_and_deviation(row.metric(_METRIC)) for row in rows] or ["absent"] * len(transfers)
        lines.append([label, *cells, label_of(*rows)])
    title = f"{operation.capitalize()}, {clients} clients, by transfer size (MiB/s)"
    return Table(title, ["interface", *map(format_size, transfers), ""], lines)


def _counted(document: Document) -> Section:
    """Shows what was counted with the most clients and the largest transfers."""
    settings = document.settings
    names, clients = settings["interfaces"], settings["clients"][-1]
    transfer = format_size(settings["transfers_bytes"][-1])
    panels, tables = [], []
    for operation in OPERATIONS:
        rows = {name: _at_most(document, operation, name) for name in names}
        for metric, title in (
            ("ranks_context_switches", "context switches of the clients"),
            ("machine_context_switches", "of the whole machine"),
        ):
            bars = [Bar.of(n, _short(n), row.metric(metric)) for n, row in rows.items()]
            panels.append(BarPanel(f"{operation.capitalize()}: {title}", bars))
        named = [(LABELS[name], row) for name, row in rows.items()]
        tables.append(counted_table(f"{operation}, {clients} clients, {transfer}", named))
    figure = Figure(
        "context-switches",
        Bars(panels, common_scale=False, label_width=170.0),
        "Bars of context switches for each interface; the tables below have the numbers.",
        f"Context switches with {clients} clients and calls of {transfer}. The line across the end "
        "is the median's 95 % bounds. Each panel has a scale of its own.",
    )
    return Section("What was counted", figure=figure, tables=tables)


# ---- the paper -----------------------------------------------------------------------------------

# The paper's names; its MPI-IO over the native client is a driver that no packaged MPI library has.
_PAPER = {"posix": POSIX, "mpiio-posix": MPIIO, "native": NATIVE, "mpiio-native": None}


def paper_table(document: Document) -> Table:
    """Returns the paper's bandwidths beside ours of the same interface, with as many clients."""
    settings, lines = document.settings, []
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
            there = {"operation": number.operation, "interface": name, "clients": clients}
            row = row_at(document.rows, **there, transfer_bytes=transfer)
            found = mean_and_deviation(row.metric(_METRIC))
            if transfer != int(number.x) * MIB:
                found += f" (with {format_size(transfer)})"
        deviation = number.note.split("sd ")[1].rstrip(")")
        published_text = f"{number.mib_per_s:.0f} ± {float(deviation) * 1e6 / MIB:.0f}"
        lines.append([number.system, number.operation, f"{number.x:g} MB", published_text, found])
    title = f"{published.CITED['002']}, six clients and six servers of PVFS2 on InfiniBand, beside ours (MiB/s)"
    return Table(title, ["interface", "", "call", "published", "here"], lines, left=2)


def _paper_usage_table() -> Table:
    lines = []
    for name in _PAPER:
        found = {number.operation: number.value for number in published.of_study("interfaces", system=name)}
        cpu = [f"{found[f'cpu {kind}']:g} %" for kind in ("user", "system")]
        lines.append([name, f"{found['context switches']:,.0f}", *cpu])
    cited = published.CITED["002"]
    title = f"{cited}: what its interfaces cost each machine (24 GB, calls of 256 MB)"
    return Table(title, ["interface", "context switches", "CPU user", "system"], lines)
