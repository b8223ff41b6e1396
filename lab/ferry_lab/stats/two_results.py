"""Sets two documents of results side by side: ratios of their rows, and what else is not the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ferry.errors import FerryError
from ferry_lab.results import latencies
from ferry_lab.results.comparison import SCHEMA, ComparedFile, ComparedRow, Difference, ResultsComparison
from ferry_lab.results.metadata import MetadataResults, files_per_s
from ferry_lab.results.records import Document, ImportedRow, MetadataRepeat, Row
from ferry_lab.results.results import RATES
from ferry_lab.stats import judge
from ferry_lab.stats.limits import FINDING_PAIRS_MIN

LATENCY = "latency_{}_ns"

Measured = Document | MetadataResults


@dataclass(frozen=True)
class Phase:
    """A phase of ``ferry metadata`` with its repeats."""

    id: str
    repeats: Sequence[MetadataRepeat]


def compare(paths: tuple[str, str], documents: tuple[Measured, Measured]) -> ResultsComparison:
    """Returns the comparison. Raises FerryError where no row is in both."""
    of_a, of_b = (_rows(path, document) for path, document in zip(paths, documents, strict=True))
    alike = isinstance(documents[0], MetadataResults) == isinstance(documents[1], MetadataResults)
    common = [name for name in of_a if alike and name in of_b]
    if not common:
        raise FerryError(
            f"{paths[0]} ({', '.join(of_a)}) and {paths[1]} ({', '.join(of_b)}) have no row in common; "
            "measure both with the same of -w, -r and --mix, with the same study, or both with ferry metadata"
        )
    return ResultsComparison(
        schema=SCHEMA,
        a=_file(paths[0], documents[0]),
        b=_file(paths[1], documents[1]),
        rows=[row for name in common for row in _compare_rows(of_a[name], of_b[name])],
        only_in_a=[name for name in of_a if name not in of_b],
        only_in_b=[name for name in of_b if name not in of_a],
        differences=_differences(documents, [(of_a[name], of_b[name]) for name in common]),
    )


def _rows(path: str, document: Measured) -> Mapping[str, Row | Phase]:
    if isinstance(document, MetadataResults):
        names = dict.fromkeys(one.phase for one in document.repeats)
        return {name: Phase(name, [one for one in document.repeats if one.phase == name]) for name in names}
    rows = {row.id: row for row in document.rows}
    if len(rows) < len(document.rows):
        raise FerryError(f"{path} has several rows of one id; name what ferry bench or ferry study wrote")
    if any(sample.bytes == 0 or sample.operations == 0 for row in document.rows for sample in row.repeats):
        raise FerryError(f"{path} has a repeat that moved nothing; measure again")
    return rows


def _file(path: str, document: Measured) -> ComparedFile:
    return ComparedFile(path, document.ferry_version, document.command, document.started)


# ---- ratios --------------------------------------------------------------------------------------


def _compare_rows(a: Row | Phase, b: Row | Phase) -> list[ComparedRow]:
    rates = ["files_per_s"] if isinstance(a, Phase) or isinstance(b, Phase) else _compared_rates(a, b)
    found = [_compare_series(a.id, rate, *(_rates(row, rate) for row in (a, b))) for rate in rates]
    timed = [[getattr(sample, "latency_ns", None) for sample in row.repeats] for row in (a, b)]
    if all(timed[0] + timed[1]):
        for name in latencies.shown(timed[0] + timed[1]):
            series = ([float(max(getattr(one, name), 1)) for one in side] for side in timed)
            found.append(_compare_series(a.id, LATENCY.format(name), *series))
    return found


def _compared_rates(a: Row, b: Row) -> list[str]:
    rates = ["bandwidth_mib_per_s"]
    if all("fsync" in getattr(row, "sync", "none") and not isinstance(row, ImportedRow) for row in (a, b)):
        rates.append("bandwidth_with_sync_mib_per_s")
    rates.append("bandwidth_open_to_close_mib_per_s")
    if a.transfer_bytes != b.transfer_bytes:
        rates.append("operations_per_s")
    return rates


def _rates(row: Row | Phase, metric: str) -> list[float]:
    if isinstance(row, Phase):
        return files_per_s(row.repeats)
    return [RATES[metric](sample) for sample in row.repeats]


def _compare_series(row: str, metric: str, a: Sequence[float], b: Sequence[float]) -> ComparedRow:
    ratio = judge.ratio_of_medians(b, a)
    faster = judge.ratio_of_medians(a, b) if metric.endswith("_ns") else ratio
    noise = max(judge.spread(judge.median_bounds(judge.neighbour_ratios(series))) for series in (a, b))
    return ComparedRow(
        row=row,
        metric=metric,
        a_median=judge.median_bounds(a).median,
        b_median=judge.median_bounds(b).median,
        a_repeats=len(a),
        b_repeats=len(b),
        ratio_median=ratio.median,
        ratio_low_95=ratio.low,
        ratio_high_95=ratio.high,
        noise=noise,
        finding=judge.finding(faster, noise, min(len(a), len(b))),
    )


def is_too_short(row: ComparedRow) -> bool:
    """Whether it has too few repeats for any finding."""
    return min(row.a_repeats, row.b_repeats) < FINDING_PAIRS_MIN


# ---- what else differs ---------------------------------------------------------------------------

_CHANGING = ("free_bytes",)  # from minute to minute


def _differences(documents: Sequence[Measured], rows: Sequence[tuple[Row | Phase, Row | Phase]]) -> list[Difference]:
    sides = [dict(_facts(document, [pair[i] for pair in rows])) for i, document in enumerate(documents)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [
        Difference(name, sides[0].get(name), sides[1].get(name))
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    ]


def _facts(document: Measured, rows: Sequence[Row | Phase]) -> Iterator[tuple[str, Any]]:
    environment = msgspec.to_builtins(document.environment)
    for name in ("file_systems", "storages", "runtimes"):  # each once: the phases of a run have the same
        parts = environment.get(name, [])
        environment[name] = [part for i, part in enumerate(parts) if part not in parts[:i]]
    yield from _flat(environment, "")
    settings = dict(document.settings)
    if isinstance(jobs := settings.get("jobs"), dict):  # those of one side alone are named as rows
        settings["jobs"] = {name: jobs[name] for name in jobs if any(row.id == name for row in rows)}
    yield from _flat(settings, "settings")
    for row in rows:
        if isinstance(row, Phase):
            continue
        for name in ("path", "cache_state", "device_cache_state"):
            yield f"{row.id}.{name}", getattr(row, name)


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Gives each value within with its place, like ``file_systems[0].type``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _CHANGING:
                yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for i, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{i}]")
    else:
        yield name, value
