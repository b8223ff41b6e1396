"""``ferry study writers --simulate``: how many writers a described cluster should have.

Measures nothing: the numbers come from a discrete-event model (studies.writers_simulation) of the
cluster in a file. The output says how far to trust it: four numbers of Fahey 2007 calibrate it, all
others test it.
"""

from __future__ import annotations

import csv
import io
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import starmap

import msgspec

from ferry import __version__, output_files, terminal
from ferry.files import signals_ignored
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.sections import Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_study
from ferry_lab.results import results, simulation
from ferry_lab.results.simulation import PaperRow, SimulatedRow, Simulation
from ferry_lab.run.study import check_out, write_out
from ferry_lab.run.study_files import RESULTS_CSV, RESULTS_JSON
from ferry_lab.studies import published
from ferry_lab.studies.cluster_model import MB, Cluster, built_in_cluster, read_cluster
from ferry_lab.studies.writers_model import NOT_HELD_AGAINST, facts_of, paper_row, paper_table, points
from ferry_lab.studies.writers_simulation import REQUESTS_MAX, Operation, SimulatedTransfer, SimulationOutcome, simulate

CLOSE_TO_BEST = 0.95  # of the best bandwidth; so few writers are as good
_X_TICKS = 5
_OPERATIONS: tuple[Operation, ...] = ("write", "read")


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    cluster: str | None  # a file; None: the XT3 of Fahey (2007)
    quick: bool
    out: str | None
    json: str | None
    overwrite: bool


def run(options: Options) -> None:
    """Simulates, prints tables and conclusions, writes what was asked for. Raises FerryError."""
    started = results.now().isoformat(timespec="seconds")
    cluster = built_in_cluster() if options.cluster is None else read_cluster(options.cluster)
    output_files.check_output(options.json, options.overwrite)
    check_out(options.out, options.overwrite)
    document = make_document(cluster, options.quick, started)
    answer, sections = make_answer(document), make_sections(document)
    if options.json != "-":
        print_study(terminal.output_console(), document, answer, sections)
    files = {}
    if options.out is not None:
        from ferry_lab.render import html  # jinja2 takes a while to load

        files = {
            RESULTS_JSON: output_files.encode(output_files.to_json(msgspec.to_builtins(document))),
            RESULTS_CSV: to_csv(document).encode(),
            **html.files(document, answer, sections),
        }
    with signals_ignored():
        if options.json is not None:
            output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)
        write_out(options.out, files, options.overwrite)


def make_document(cluster: Cluster, quick: bool, started: str) -> Simulation:
    """Simulates everything."""
    by_writers = [
        (cluster, SimulatedTransfer(operation, writers))
        for operation in _OPERATIONS
        for writers in writer_counts(cluster, quick)
    ]
    by_ranks = [
        (replace(cluster, job=replace(cluster.job, ranks=ranks)), SimulatedTransfer(operation, ranks))
        for operation in _OPERATIONS
        for ranks in _powers(cluster.job.ranks, 4 if quick else 2)
    ]
    held = points(built_in_cluster())
    with terminal.progress("writers", len(by_writers) + len(by_ranks) + len(held)) as bar:

        def outcome(where: Cluster, transfer: SimulatedTransfer) -> SimulationOutcome:
            made = simulate(where, transfer)
            bar.advance()
            return made

        rows = [
            SimulatedRow(**facts_of(group, where, transfer, outcome(where, transfer)))
            for group, chosen in (("by writers", by_writers), ("all ranks write", by_ranks))
            for where, transfer in chosen
        ]
        paper = [paper_row(point, outcome(point.cluster, point.transfer)) for point in held]
    document = Simulation(
        schema="ferry.simulation/1",
        ferry_version=__version__,
        kind="simulation",
        study="writers",
        command=["ferry", *sys.argv[1:]],
        started=started,
        finished=results.now().isoformat(timespec="seconds"),
        environment=simulation.SimulationEnvironment(
            None, {"ferry": __version__, "git_revision": results.git_revision()}
        ),
        settings=simulation.SimulationSettings(quick, msgspec.convert(asdict(cluster), simulation.SimulatedCluster)),
        notes=_notes(cluster, rows),
        rows=rows,
        best=simulation.BestOfBoth(find_best(rows, "write"), find_best(rows, "read")),
        paper=paper,
        conclusions=[],
    )
    document.conclusions = conclude(document)
    return document


def writer_counts(cluster: Cluster, quick: bool) -> list[int]:
    """Returns the numbers of writers to try: powers below the number of servers, then multiples.

    Between the multiples some servers have a file more than others, and everybody waits for them.
    """
    ranks, servers = cluster.job.ranks, cluster.servers.count
    base = 4 if quick else 2
    few = [n for n in _powers(ranks, base) if n < servers]
    many = [n * servers for n in _powers(max(1, ranks // servers), base)]
    return [*few, *(n for n in many if n < ranks), ranks]


def find_best(rows: Sequence[SimulatedRow], operation: Operation) -> simulation.Best:
    """Returns the best number of writers, and those that are within 5 % of it on both sides."""
    of = _rows_of(rows, "by writers", operation)
    best = max(range(len(of)), key=lambda n: of[n].bandwidth_mb_per_s)
    least = CLOSE_TO_BEST * of[best].bandwidth_mb_per_s
    low = high = best
    while low > 0 and of[low - 1].bandwidth_mb_per_s >= least:
        low -= 1
    while high + 1 < len(of) and of[high + 1].bandwidth_mb_per_s >= least:
        high += 1
    return simulation.Best(of[best].writers, of[best].bandwidth_mb_per_s, of[low].writers, of[high].writers)


def _powers(most: int, base: int) -> list[int]:
    """Returns 1, base, base² and so on, and ``most``."""
    counts = [1]
    while counts[-1] < most:
        counts.append(counts[-1] * base)
    return [*counts[:-1], most]


def _notes(cluster: Cluster, rows: Sequence[SimulatedRow]) -> list[str]:
    notes = ["a model: nothing was measured on this machine", *NOT_HELD_AGAINST]
    largest = max(row.request_bytes for row in rows)
    if largest > cluster.servers.request_bytes:
        notes.append(
            f"requests of up to {largest / MB:g} MB are simulated in place of "
            f"{cluster.servers.request_bytes / MB:g} MB, so that there are at most about "
            f"{REQUESTS_MAX}"
        )
    return notes


def to_csv(document: Simulation) -> str:
    """Returns all rows, one line each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, PaperRow.__struct_fields__, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(map(msgspec.structs.asdict, [*document.rows, *document.paper]))
    return text.getvalue()


# ---- what is shown -------------------------------------------------------------------------------


def make_answer(document: Simulation) -> Answer:
    """Returns the best numbers of writers, and how far to trust them."""
    cluster = document.settings.cluster
    job = cluster.job
    files = "one shared file" if job.file == "shared" else "a file for each writer"
    return Answer(
        "How many ranks should write, and read, for all of them?",
        document.conclusions,
        [
            f"A model of: {cluster.name}; {job.ranks} ranks with {job.bytes_per_rank / 1e6:g} MB "
            f"each, {files}, {cluster.servers['count']} servers.",
            "A discrete-event simulation: each rank's data goes through its node's link, the "
            "network that all share, and the queue of a server; each writer opens its file at one "
            "metadata server, which gets slower the more are waiting. GB and MB are powers of ten, "
            "as in the paper.",
        ],
        [
            Word("write", "write", "creating the files is inside the time; no sync, no close"),
            Word("read", "read", "opening the files is inside the time"),
        ],
    )


def make_sections(document: Simulation) -> list[Section]:
    """Returns the sweeps, the paper beside the model, and the parameters."""
    writers = Figure(
        "writers",
        _curves(document, "by writers", "number of writers"),
        "Curves of bandwidth by the number of writers, for writes and reads; the table below has the numbers.",
        "Bandwidth of all ranks together by the number of writers; the other ranks send them their "
        "data, or get it from them. Both axes are logarithmic.",
    )
    ranks = Figure(
        "ranks",
        _curves(document, "all ranks write", "number of ranks, all of which write"),
        "Curves of bandwidth by the number of ranks where all write or read; the table below has the numbers.",
        "Bandwidth where every rank writes its own data, and there are more and more ranks. Both axes are logarithmic.",
    )
    return [
        Section(
            "The same data, by the number of writers",
            ["Opens, in the table: when the last file was open. Servers busy: the mean of all."],
            writers,
            tables=[_sweep_table(document, "by writers")],
        ),
        Section(
            "Everybody writes, and the job grows: as many ranks as writers, the same for each",
            figure=ranks,
            tables=[_sweep_table(document, "all ranks write")],
        ),
        _paper_section(document),
        _parameters_section(document),
    ]


def conclude(document: Simulation) -> list[str]:
    """Returns three sentences: the best number, what others cost, how far to trust it."""
    ranks = document.settings.cluster.job.ranks
    counts, shares = [], []
    for operation, best in (("write", document.best.write), ("read", document.best.read)):
        few, many = best.fewest_writers_within_5_percent, best.most_writers_within_5_percent
        span = f"{few} to {many} are" if few != many else "no other number tried is"
        highest = best.bandwidth_mb_per_s
        counts.append(f"{best.writers} to {operation} ({_rate(highest)}; {span} within 5 %)")
        rates = {row.writers: row.bandwidth_mb_per_s for row in _rows_of(document.rows, "by writers", operation)}
        one, every = (_percent(rates[count] / highest) for count in (1, ranks))
        shares.append(f"{operation}: {every} with all {ranks}, {one} with one")
    return [
        f"Best numbers of writers: {', '.join(counts)}.",
        f"Of the best that is, {'; '.join(shares)}.",
        _trust_sentence(document),
    ]


def _trust_sentence(document: Simulation) -> str:
    """Returns how the model does where it was not calibrated."""
    held = [row for row in document.paper if not row.calibrated]
    worst = max(held, key=lambda row: abs(row.deviation))
    median = statistics.median(abs(row.deviation) for row in held)
    return (
        f"Calibrated from {len(document.paper) - len(held)} numbers of {published.CITED['004']}, the "
        f"model of its XT3 is off by {_percent(median)} in the median of {len(held)} others, at "
        f"worst by {worst.deviation * 100:+.0f} % ({worst.operation} on {worst.where})."
    )


def _rate(mb_per_s: float) -> str:
    """Returns a rate with its unit, which is that of all tables and plots."""
    return f"{mb_per_s / 1000:.1f} GB/s" if mb_per_s >= 1000 else f"{mb_per_s / 1000:.3f} GB/s"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _rows_of(rows: Sequence[SimulatedRow], group: str, operation: str) -> list[SimulatedRow]:
    """Returns the rows of a group, by writers."""
    found = [row for row in rows if (row.group, row.operation) == (group, operation)]
    return sorted(found, key=lambda row: row.writers)


def _sweep_table(document: Simulation, group: str) -> Table:
    def cells(row: SimulatedRow) -> list[str]:
        return [f"{row.bandwidth_mb_per_s / 1000:.2f}", f"{row.opens_s:.2f} s", _percent(row.servers_busy_share)]

    written, read = (_rows_of(document.rows, group, operation) for operation in _OPERATIONS)
    lines = [[str(one.writers), *cells(one), *cells(other)] for one, other in zip(written, read, strict=True)]
    return Table("", ["writers", "write GB/s", "opens", "servers busy", "read GB/s", "opens", "servers busy"], lines)


def _curves(document: Simulation, group: str, x_label: str) -> Curves:
    series = []
    for operation in _OPERATIONS:
        rows = _rows_of(document.rows, group, operation)
        rates = [row.bandwidth_mb_per_s for row in rows]
        counts = [row.writers for row in rows]
        series.append(Series(operation, operation, counts, rates, rates, rates))
    return Curves([Panel("", series)], x="threads", y="rate", x_label=x_label, x_ticks=_ticks(counts))


def _ticks(counts: Sequence[int]) -> list[float]:
    """Returns some of the counts, about evenly apart on a logarithmic axis, and both ends."""
    step = (counts[-1] / counts[0]) ** (1 / _X_TICKS)
    chosen: list[float] = [counts[0]]
    for count in counts:
        if count >= chosen[-1] * step and count * step**0.7 <= counts[-1]:
            chosen.append(count)
    return [*chosen, counts[-1]] if counts[-1] > counts[0] else chosen


def _paper_section(document: Simulation) -> Section:
    parts: dict[str, list[Bar]] = {"calibrated": [], "held out, many writers": [], "held out, one writer": []}
    for row in document.paper:
        held_out = "held out, many writers" if row.writers > 1 else "held out, one writer"
        parts["calibrated" if row.calibrated else held_out].append(_bar(row))
    figure = Figure(
        "paper",
        Bars(list(starmap(BarPanel, parts.items())), columns=1, common_scale=False, label_width=150.0),
        "Bars of the model's bandwidth for each published number, a diamond at the published one; "
        "the table below has the numbers.",
        "Bars are the model, diamonds what the paper published. The upper four gave four "
        "parameters; the others are predictions. Each part has a scale of its own.",
    )
    return Section(
        f"Compared with {published.CITED['004']}",
        [
            _trust_sentence(document),
            "The paper says of the runs with 8640 and 960 writers that others used the machine, too; "
            "the XT4 is another machine, of which only the number of servers is put in here.",
        ],
        figure,
        tables=[paper_table(" beside the model of its XT3", document.paper, _rate)],
    )


def _bar(row: PaperRow) -> Bar:
    value, said = row.bandwidth_mb_per_s, row.published_mb_per_s
    system, what = row.where.split(", ")[:2]
    label = f"{system}, {what}" if row.writers == 1 else f"{system} {what}: {row.writers}"
    label = label.replace("one writer, stripe", "1, stripe")
    tip = f"{row.where}, {row.writers} writers: model {_rate(value)}, published {_rate(said)}"
    return Bar(row.operation, label, [value], value, value, f"{round(row.deviation * 100):+d} %", tip, said)


def _parameters_section(document: Simulation) -> Section:
    cluster = document.settings.cluster
    rows = [
        [f"{section}.{key}", f"{value:,}" if isinstance(value, int) else str(value)]
        for section, values in msgspec.to_builtins(cluster).items()
        if isinstance(values, dict)
        for key, value in values.items()
    ]
    return Section(
        "The parameters",
        ["As the file has them; docs/reference/writers-model.md explains each."],
        tables=[Table(cluster.name, ["parameter", "value"], rows)],
    )
