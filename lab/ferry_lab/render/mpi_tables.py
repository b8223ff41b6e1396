"""Tables shared by the studies of many ranks: bandwidths, counters, time by phase."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import UNSET

from ferry.sizes import MIB
from ferry_lab.render.study_text import format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.results.records import RanksRow, Summary

COUNTED_HEADS = [*("CPU ms", "switches", "requests", "messages", "moved MiB"), *("CPU ms*", "switches*", "net MiB*")]


def counted_cells(row: RanksRow) -> list[str]:
    """Returns medians of what does not depend on how fast the machine is, or less so."""

    def whole(name: str) -> str:
        return f"{row.metric(name).median:,.0f}"

    def cpu(whose: str) -> str:
        user, system = (row.metric(f"{whose}_{kind}_cpu_ns").median for kind in ("user", "system"))
        return f"{user / 1e6:,.0f}+{system / 1e6:,.0f}"

    counted = row.metrics.messages is not UNSET
    moved = "not reported"
    if counted:
        bytes_moved = sum(row.metric(n).median for n in ("message_bytes", "shared_bytes"))
        moved = f"{bytes_moved / MIB:,.0f}"
    # The MPI library's requests are not known, only its calls.
    calls = f"{whole('read_and_write_calls')} calls"
    return [
        cpu("ranks"),
        whole("ranks_context_switches"),
        whole("storage_requests") if counted else calls,
        whole("messages") if counted else "not reported",
        moved,
        cpu("machine"),
        whole("machine_context_switches"),
        f"{row.metrics.machine_network_bytes.median / MIB:,.1f}",
    ]


COUNTED_TITLE = (
    "Counted, of all ranks together; * on the whole machine (medians; CPU user+system; moved: to "
    "other ranks, by messages or shared memory)"
)

SPLIT_HEADS = ["exchange", "copies", "file I/O", "longest file I/O", "call", "rest/file"]


def split_cells(row: RanksRow) -> list[str]:
    """Returns the time split in ms: means over the ranks, then what bounds the call."""
    ratio = split_ratio(row)
    if ratio is None:
        return ["not reported"] * len(SPLIT_HEADS)
    names = ("communication_mean", "pack_mean", "file_mean", "file_maximum")
    return [*(f"{row.metric(f'{name}_ns').median / 1e6:.1f}" for name in names), f"{call_ms(row):.1f}", f"{ratio:.2f}"]


def call_ms(row: RanksRow) -> float:
    """Returns how long the transfers and the fsync after them take."""
    return (row.metrics.io_ns.median + row.metrics.sync_ns.median) / 1e6


def split_ratio(row: RanksRow) -> float | None:
    """Returns what a call takes beyond the longest file I/O of any rank, over that.

    It is the communication that can be seen: what overlaps with file I/O costs nothing. None where
    the time split is not reported.
    """
    file_ns = row.metrics.file_maximum_ns
    if file_ns is UNSET or file_ns.median <= 0:
        return None
    longest = file_ns.median / 1e6
    return max(call_ms(row) - longest, 0.0) / longest


def mean_and_deviation(summary: Summary) -> str:
    """Returns "466 ± 8" (mean and standard deviation), as Tirupati Nagaraj (2009) has it."""
    deviation = summary.standard_deviation
    number = f"{summary.mean:.0f}" if summary.mean >= 100 else f"{summary.mean:.1f}"
    if deviation is None:
        return number
    return f"{number} ± {deviation:.0f}" if deviation >= 10 else f"{number} ± {deviation:.1f}"


def bandwidth_of(row: RanksRow, metric: str) -> str:
    """Returns the median, and half the width of its bounds."""
    return format_bandwidth(row.metric(metric))


def counted_table(heads: str, rows: Sequence[tuple[str, RanksRow]]) -> Table:
    """Returns a line for each row: what it is, and what was counted."""
    lines = [[name, *counted_cells(row)] for name, row in rows]
    return Table(COUNTED_TITLE, [heads, *COUNTED_HEADS], lines)


def split_table(heads: str, rows: Sequence[tuple[str, RanksRow]]) -> Table:
    """Returns where the time of the ranks goes."""
    title = (
        "Where the time goes (ms): means over the ranks, the longest file I/O of any rank, the "
        "whole call, and how many times that file I/O the rest of it takes"
    )
    return Table(title, [heads, *SPLIT_HEADS], [[name, *split_cells(row)] for name, row in rows])


def memory_bytes() -> int:
    """Returns how much memory the machine has: what caches can hold."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def oversubscription(rows: Sequence[RanksRow], cpus: int) -> str | None:
    """Returns a note where ranks had to share CPUs; its rows are labelled."""
    counts = sorted({row.ranks for row in rows if row.oversubscribed})
    if not counts:
        return None
    ranks = ", ".join(map(str, counts))
    return (
        f"oversubscribed: {ranks} ranks share {cpus} CPUs, so their times say more of the machine's "
        "scheduler than of the interfaces; the counted quantities stand beside them"
    )


def label_of(*rows: RanksRow) -> str:
    """Returns the state of the cache and "oversubscribed", where it is; of several rows each once."""
    labels = []
    for row in rows:
        said = [row.cache_state, "oversubscribed" if row.oversubscribed else None]
        labels.append(", ".join(filter(None, said)))
    return "; ".join(dict.fromkeys(filter(None, labels)))


def count_of(number: int, what: str) -> str:
    """Returns "1 rank" or "4 ranks"."""
    return f"{number} {what}{'s' if number != 1 else ''}"
