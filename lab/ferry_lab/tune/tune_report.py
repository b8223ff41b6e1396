"""What ``ferry tune`` prints: what it tried, what it recommends, and where it wrote that."""

from __future__ import annotations

from rich.console import Console

from ferry import file_systems, terminal
from ferry_lab.tune.entry import Entry
from ferry_lab.tune.tuning_choice import Outcome, Tuned, WorkloadComparison


def storage_of(entry: Entry) -> str:
    """Returns how the profile names the entry's storage: "ext4 on vda"."""
    name = entry.file_system or file_systems.UNKNOWN
    if entry.block_device:
        return f"{name} on {entry.block_device}"
    return f"{name} at {entry.mount_point}" if entry.mount_point else name


def print_report(console: Console, folder: str, entry: Entry, outcome: Outcome, path: str) -> None:
    """Prints the tables, the recommendation and the path of the profile."""
    console.print(f"Tuned {storage_of(entry)} ({folder}) for device cpu in {outcome.spent_s:.0f} s")
    console.print()
    table = terminal.BlockTable(
        "Candidates, compared with the built-in settings",
        ["setting", "built in", "best found", "predicted", "measured again", "noise", "taken"],
    )
    for tuned in outcome.tuned:
        table.add_row(*_setting_row(tuned))
    console.print(table)
    for tuned in outcome.tuned:
        if tuned.candidate is not None and not tuned.in_force:
            console.print(f"{tuned.setting.title}: {tuned.reason}", soft_wrap=True)
    for note in outcome.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if outcome.whole is not None and any(tuned.in_force for tuned in outcome.tuned):
        console.print()
        _print_workloads(console, outcome.whole.comparisons)
    console.print()
    _print_recommendation(console, outcome)
    console.print(f"written to {path}; ferry info {folder} shows it", soft_wrap=True)


def _setting_row(tuned: Tuned) -> list[str]:
    setting, candidate, verdict = tuned.setting, tuned.candidate, tuned.verdict
    row = [setting.title, setting.format(setting.default)]
    if candidate is None:
        best = "not tried" if tuned.reason.startswith("not tried") else "the same"
        return [*row, best, "", "", "", ""]
    row += [setting.format(candidate.value), _percent(candidate.gain)]
    if verdict is None:
        return [*row, "", "", "no"]
    gain = verdict.gain
    bounds = f"{_percent(gain.median)} ({_percent(gain.low)} to {_percent(gain.high)})"
    return [*row, bounds, f"{verdict.noise * 100:.0f} %", "yes" if tuned.in_force else "no"]


def _print_workloads(console: Console, comparisons: list[WorkloadComparison]) -> None:
    table = terminal.BlockTable(
        "The recommended settings, compared with the built-in ones",
        ["workload", "time of", "speed", "95 % bounds", "noise", "finding"],
        left=2,
    )
    for one in comparisons:
        table.add_row(
            one.view[0],
            one.view[1],
            f"{one.ratio.median:.2f} ×",
            f"{one.ratio.low:.2f} to {one.ratio.high:.2f}",
            f"{one.noise * 100:.0f} %",
            one.finding.replace("_", " "),
        )
    console.print(table)


def _print_recommendation(console: Console, outcome: Outcome) -> None:
    taken = [t for t in outcome.tuned if t.in_force and t.candidate is not None]
    if not taken:
        console.print("recommended: the built-in settings; nothing was faster beyond the noise")
        return
    for tuned in taken:
        assert tuned.candidate is not None
        console.print(f"recommended: {tuned.setting.title} {tuned.setting.format(tuned.candidate.value)}")


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"
