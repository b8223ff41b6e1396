"""``ferry tune --ranks``: how many ranks of a node should write, and their buffer size.

Ranks write one shared file in interleaved pieces through writers, with fsync. Every number of
writers and buffer size gets a few repeats; the best is measured again beside the built-in choice,
in as many pairs as a verdict needs, and accepted only if faster beyond the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from ferry.files import scratch_folder
from ferry.sizes import KIB, MIB, format_size
from ferry_lab.results.results import whole_ns
from ferry_lab.run.measuring import run_plan
from ferry_lab.run.plan import Plan, RanksCell
from ferry_lab.stats import judge
from ferry_lab.tune.entry import TunedSetting

BUFFERS = [MIB, 4 * MIB, 16 * MIB]
BYTES_PER_RANK = 8 * MIB
PIECE_BYTES = 4 * KIB
_EXPLORE_REPEATS = judge.FINDING_PAIRS_MIN
# The library's rule for one node (src/collective/opening.cpp), which a profile can override.
_RANKS_PER_WRITER, _WRITERS_MIN, _BUFFER_BYTES = 8, 2, 4 * MIB


@dataclass(frozen=True)
class RanksChoice:
    ranks: int
    default: tuple[int, int]  # writers, bytes of a buffer
    best: tuple[int, int]
    ratio: judge.Bounds | None = None  # bandwidths, best over default; None if the same
    noise: float = 0.0
    taken: bool = False

    def entry(self) -> dict[str, int]:
        """Returns the profile's table ``collective``; empty if the built-in choice stays."""
        if not self.taken:
            return {}
        return {"writers_per_node": self.best[0], "buffer_bytes": self.best[1]}

    def facts(self) -> TunedSetting:
        """Returns what was tried, for the profile's ``settings``."""
        facts = TunedSetting("collective", list(self.default), self.taken, self.reason(), self.ranks)
        facts.candidate = list(self.best)
        if self.ratio is not None:
            facts.gain_median, facts.noise = self.ratio.median, self.noise
            facts.gain_low_95, facts.gain_high_95 = self.ratio.low, self.ratio.high
        return facts

    def reason(self) -> str:
        """Returns why it was accepted or not, in a few words."""
        if self.ratio is None:
            return "no other choice looked better"
        gain = f"{self.ratio.median:.2f} times the bandwidth ({self.ratio.low:.2f} to {self.ratio.high:.2f})"
        if self.taken:
            return f"faster, {gain}"
        return f"not faster beyond the noise ({self.noise:.0%}), {gain}"


def writer_counts(ranks: int) -> list[int]:
    """Returns the powers of two up to the number of ranks."""
    return [1 << power for power in range(ranks.bit_length())]


def default_choice(ranks: int) -> tuple[int, int]:
    """Returns the library's built-in choice for this many ranks on one node."""
    share = -(-ranks // _RANKS_PER_WRITER)
    return min(ranks, max(share, _WRITERS_MIN)), _BUFFER_BYTES


def measure(folder: str, ranks: int) -> RanksChoice:
    """Measures on a folder's storage. Raises FerryError."""
    default = default_choice(ranks)
    choices = [(writers, size) for writers in writer_counts(ranks) for size in BUFFERS]
    choices += [] if default in choices else [default]
    with scratch_folder(folder, 2 * ranks * BYTES_PER_RANK) as scratch:
        path = str(scratch / "collective")
        times = _times([_cell(path, ranks, choice) for choice in choices], _EXPLORE_REPEATS)
        names = {_name(choice): choice for choice in choices}
        best = names[judge.pick_best({name: times[name] for name in names})]
        if best == default:
            return RanksChoice(ranks, default, best)
        again = [_cell(path, ranks, default, "again"), _cell(path, ranks, best)]
        times = _times([_cell(path, ranks, default), *again], judge.PAIRS_MIN)
    before, after = times[_name(default)], times[_name(best)]
    # A ratio of times is the inverse ratio of bandwidths.
    ratio = judge.median_bounds(judge.pair_ratios(before, after))
    noise = judge.spread(judge.median_bounds(judge.pair_ratios(before, times["again"])))
    taken = judge.finding(ratio, noise, len(before)) == "faster"
    return RanksChoice(ranks, default, best, ratio, noise, taken)


def print_choice(console: Console, choice: RanksChoice) -> None:
    """Prints the result, and the hints that ask for the same."""
    for what, (writers, size) in (("built in", choice.default), ("best found", choice.best)):
        console.print(f"{choice.ranks} ranks, {what}: {writers} writers, buffers of {format_size(size)}")
    console.print(f"collective transfers: {choice.reason()}", soft_wrap=True)
    writers, size = choice.best if choice.taken else choice.default
    console.print(f"MPI_Info: cb_nodes = {writers}, cb_buffer_size = {size}")


def _name(choice: tuple[int, int]) -> str:
    return f"{choice[0]}/{choice[1]}"


def _cell(path: str, ranks: int, choice: tuple[int, int], name: str = "") -> RanksCell:
    return RanksCell(
        id=name or _name(choice),
        interface="ferry",
        method="aggregate",
        operation="write",
        pattern="interleaved",
        path=path,
        ranks=ranks,
        writers=choice[0],
        buffer_bytes=choice[1],
        piece_bytes=PIECE_BYTES,
        transfer_bytes=BYTES_PER_RANK,
        total_bytes=ranks * BYTES_PER_RANK,
        sync="fsync",
    )


def _times(cells: list[RanksCell], repeats: int) -> dict[str, list[float]]:
    measured = run_plan(Plan(cells, repeats))
    return {name: [float(whole_ns(sample)) for sample in samples] for name, samples in measured.samples.items()}
