"""``ferry metadata``: how many files a second are made, looked at, read and removed."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import msgspec
from rich.console import Console

from ferry import __version__, file_systems, output_files, terminal
from ferry.errors import FerryError
from ferry.files import scratch_folder
from ferry.native import Json
from ferry.sizes import format_size
from ferry.uris import is_uri, shown, with_suffix
from ferry_lab.render.tables import Table
from ferry_lab.results import latencies, results
from ferry_lab.results.metadata import PHASES, SCHEMA, MetadataRate, MetadataResults, files_per_s
from ferry_lab.results.records import Environment, MetadataRepeat
from ferry_lab.run import remote_files
from ferry_lab.run.measuring import Measurement, run_plan
from ferry_lab.run.plan import Cell, Plan, RuntimeSettings

FILES_MAX = 1 << 16  # of all threads


@dataclass(frozen=True)
class MetadataOptions:
    """The options; sizes in bytes."""

    folder: str
    interface: str
    placement: str  # interface ferry only
    files: int  # of each thread
    file_bytes: int
    threads: int
    repeats: int
    overwrite: bool
    json: str | None
    runtime: RuntimeSettings


def run(options: MetadataOptions) -> None:
    """Measures, prints the table and writes the JSON file. Raises FerryError."""
    output_files.check_output(options.json, options.overwrite)
    started = results.now()
    measurement = _measure(options)
    document = MetadataResults(
        schema=SCHEMA,
        ferry_version=__version__,
        command=["ferry", *sys.argv[1:]],
        started=started.isoformat(timespec="seconds"),
        finished=results.now().isoformat(timespec="seconds"),
        environment=results.environment_of([measurement.environment]),
        settings=_settings(options),
        rates=[_rate_of(phase, found) for phase, found in _by_phase(measurement)],
        repeats=[one for _, found in _by_phase(measurement) for one in found],
    )
    if options.json != "-":
        _show(terminal.output_console(), options, document)
    if options.json is not None:
        output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)


def _measure(options: MetadataOptions) -> Measurement:
    with _names_in(options) as path:
        cell = Cell(
            id="metadata",
            interface=options.interface,
            placement=options.placement if options.interface == "ferry" else None,
            operation="write",
            program="metadata",
            path=path,
            transfer_bytes=options.file_bytes or 1,
            total_bytes=(options.file_bytes or 1) * options.files * options.threads,
            empty_files=options.file_bytes == 0,
            threads=options.threads,
        )
        plan = Plan([cell], options.repeats, options.runtime)
        with terminal.progress(f"files in {shown(options.folder)}", options.repeats * len(PHASES)) as bar:
            return run_plan(plan, lambda _cell: bar.advance())


@contextmanager
def _names_in(options: MetadataOptions) -> Iterator[str]:
    """Yields what the names of the files begin with, in a folder of their own where one can be made."""
    if not is_uri(options.folder):
        with scratch_folder(options.folder, options.file_bytes * options.files * options.threads) as folder:
            yield str(folder / "file")
        return
    facts = remote_files.status(options.folder)
    if facts is None or facts["kind"] != "directory":
        raise FerryError(f"{shown(options.folder)} is no directory; name one that is there")
    slash = "" if options.folder.partition("?")[0].endswith("/") else "/"
    yield with_suffix(options.folder, f"{slash}ferry-{secrets.token_hex(4)}")


def _settings(options: MetadataOptions) -> Json:
    return {
        "interface": options.interface,
        "placement": options.placement if options.interface == "ferry" else None,
        "files_per_thread": options.files,
        "file_bytes": options.file_bytes,
        "threads": options.threads,
        "repeats": options.repeats,
    }


def _by_phase(measurement: Measurement) -> Iterator[tuple[str, list[MetadataRepeat]]]:
    (found,) = measurement.samples.values()
    for phase in PHASES:
        yield phase, [one for one in found if isinstance(one, MetadataRepeat) and one.phase == phase]


def _rate_of(phase: str, found: Sequence[MetadataRepeat]) -> MetadataRate:
    rates = files_per_s(found)
    return MetadataRate(
        phase=phase, files_per_s_median=median(rates), files_per_s_min=min(rates), files_per_s_max=max(rates)
    )


_WHAT = {"create": "create, write, close", "stat": "stat", "read": "open, read, close", "remove": "remove"}


def _show(console: Console, options: MetadataOptions, document: MetadataResults) -> None:
    where = _where(document.environment)
    size = format_size(options.file_bytes) if options.file_bytes else "0 bytes"
    threads = f"{options.threads} thread{'s' if options.threads > 1 else ''}"
    how = f"interface {options.interface}"
    if options.interface == "ferry":
        how += f", placement {options.placement}"
    console.print(
        f"{options.files * options.threads} files of {size} in {shown(options.folder)}{where} by {threads}, {how}",
        soft_wrap=True,
    )
    rows = []
    for rate in document.rates:
        found = [one.latency_ns for one in document.repeats if one.phase == rate.phase]
        rows.append(
            [
                _WHAT[rate.phase],
                *(f"{value:.0f}" for value in (rate.files_per_s_median, rate.files_per_s_min, rate.files_per_s_max)),
                *(f"{median(getattr(one, name) for one in found) * 1e-3:.2f}" for name in ("p50", "p99")),
                f"{max(one.max for one in found) * 1e-3:.2f}",
            ]
        )
    percentiles = [f"µs, {latencies.words(name)}" for name in ("p50", "p99")]
    console.print(Table("", ["of a file", "files/s", "least", "most", *percentiles, "longest"], rows).shown())


def _where(environment: Environment) -> str:
    for storage in environment.storages or []:
        return f" on storage {storage.storage} ({storage.engine})"
    for system in environment.file_systems:
        source = f" ({system.source})" if system.source else ""
        return f" on {system.type or file_systems.UNKNOWN}{source}"
    return ""
