"""``ferry info``: what this machine offers, and how and why a path is served."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console

from ferry import file_systems, layout, output_files
from ferry.errors import FerryError
from ferry.files import check_exists
from ferry.native import read_info
from ferry.sizes import format_size
from ferry.uris import is_uri, shown

Json = dict[str, Any]
Lines = Iterator[tuple[str, str]]  # a name, possibly empty, and a text

_INDENT = 14


def run(path: str | None, json_path: str | None, overwrite: bool) -> None:
    """Prints the facts, and writes the JSON file (schema ``ferry.info/2``). Raises FerryError."""

    def answer() -> Json:
        if path is not None and not is_uri(path):
            check_exists(path)
        return read_info(path)

    storage = output_files.report(json_path, overwrite, answer, _show)["storage"]
    if storage is not None and storage["problem"] is not None:
        raise FerryError(shown(storage["problem"]))


def _show(console: Console, facts: Json) -> None:
    for part in (_machine, _path, _storage):
        for number, (name, value) in enumerate(part(facts)):
            if number == 0 and part is not _machine:
                console.print()
            first = f"{name:<{_INDENT}}"
            lines = textwrap.wrap(value, max(console.width - _INDENT, 20), break_long_words=False)
            for line in lines or [""]:
                console.print(f"{first}{line}", soft_wrap=True)
                first = " " * _INDENT


def _named(name: str, texts: Iterable[str]) -> Lines:
    """Lines of which only the first shows the name."""
    for text in texts:
        yield name, text
        name = ""


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _size_after_comma(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f", {format_size(size_bytes)}"


def _machine(facts: Json) -> Lines:
    machine, runtime = facts["machine"], facts["runtime"]
    virtual = ", in a virtual machine" if machine["virtual_machine"] else ""
    yield "machine", f"{machine['cpu_model'] or machine['architecture']}{virtual}"
    cpus = f"CPUs {machine['cpus_allowed']} allowed ({machine['cpus_usable']} usable)"
    yield "", f"{machine['kernel']}, {format_size(machine['memory_bytes'])} of memory, {cpus}"
    threads = _plural(runtime["device_threads"], "thread")
    yield "device", f"{runtime['device']}: CPUs {runtime['device_cpus']}, {threads}"
    yield "arena", runtime["arena_pages"]
    threads = _plural(runtime["server_threads"], "thread")
    yield "I/O server", f"CPUs {runtime['server_cpus']}, {threads}, {runtime['storage_engine']}"
    yield from _named("GPU", _gpus(facts["gpu"]))
    yield from _placements(facts)
    if facts["path"] is None:
        yield from _profile(facts)
    yield from _named(
        "clients", (f"{one['storage']}: {one['problem'] or one['library']}" for one in facts["clients"] or [])
    )
    for note in runtime["notes"] or ["none"]:
        yield "degraded", note
    yield "built in", "; ".join(f"{kind} {', '.join(names)}" for kind, names in facts["built_in"].items())
    yield "version", facts["versions"]["ferry"]


def _gpus(gpu: Json) -> Iterator[str]:
    for device in gpu["devices"]:
        yield (
            f"cuda:{device['ordinal']}: {device['name']}, {format_size(device['memory_bytes'])}, "
            f"compute capability {device['compute_capability']}, at {device['pci_address']}"
        )
    if gpu["bulk_copies"] is not None:
        yield f"bulk copies by {gpu['bulk_copies']['path']}; {gpu['bulk_copies']['why']}"
    if gpu["problem"] is not None:
        is_first = not gpu["devices"] and gpu["bulk_copies"] is None
        yield f"none: {gpu['problem']}" if is_first else gpu["problem"]


_PLACEMENTS = {
    "host": "in the I/O server, without a cache in the device",
    "compute": "on the calling core, through the device's page cache",
    "service": "on reserved cores or the I/O server's, through that cache",
    "automatic": "one of these, chosen for each call",
}


def _placements(facts: Json) -> Lines:
    default = facts["default_placement"]
    yield from _named(
        "placements",
        (
            f"{name:<10} {_PLACEMENTS[name]}{' (the default)' if name == default else ''}"
            for name in facts["built_in"]["placements"]
        ),
    )
    service = facts["runtime"]["service"]
    if service is not None and service["threads"] > 0:
        yield "service", f"CPUs {service['cpus']}, {_plural(service['threads'], 'thread')}"
    cache = facts["page_cache"]
    size = format_size(cache["cache_bytes"]) if cache["cache_bytes"] > 0 else "none"
    page, least, most = (format_size(cache[key]) for key in ("page_bytes", "page_bytes_min", "page_bytes_max"))
    yield "page cache", f"{size} unless a program asks for one; pages of {page} ({least} to {most})"
    if cache["cache_bytes"] == 0:
        yield "", "without it, every placement is host; ferry bench sizes it for its file"


def _path(facts: Json) -> Lines:
    path = facts["path"]
    if path is None:
        return
    yield "path", f"{path['path']} ({path['kind']}{_size_after_comma(path['size_bytes'])})"
    yield "device", "cpu"
    system = path["file_system"]
    free = f", {format_size(system['free_bytes'])} free" if system["free_bytes"] else ""
    if path["kind"] == "block device":
        yield "file system", "none: this is the device itself"
    else:
        yield "file system", f"{file_systems.on_mount_point(system)}{free}"
        if known := ", ".join(filter(None, (system["source"], system["options"]))):
            yield "", known
    yield "block device", _block_device(system["block_device"])
    yield "direct I/O", _direct_io(path["direct_io"])
    served = path["served"]
    yield "served by", f"storage {served['storage']}, {served['engine']}"
    for note in (served["why"], *served["notes"]):
        yield "", note
    if path["layout"] is not None:
        yield "layout", layout.sentence(path["layout"])
    yield from _profile(facts)


def _profile(facts: Json) -> Lines:
    """The profile, and what `automatic` decides from it."""
    profile, tuning = facts["profile"], facts["tuning"]
    if profile["path"] is not None:
        applies = " applies" if profile["applies"] else " does not apply"
        where = f"{applies} to {profile['storage']}" if profile["storage"] else ""
        yield "profile", f"{profile['path']}{where}: {profile['why']}"
    else:
        yield "profile", f"none: {profile['why']}"
    others = [name for name in profile["storages"] if name != profile["storage"]]
    if others:
        yield "", f"files on {', '.join(others)} have their own settings"
    crossovers = tuning["crossovers"]
    streams, others_from, writes = (
        _from(crossovers[f"host_{kind}_bytes_min"]) for kind in ("stream_read", "read", "write")
    )
    source = f"{tuning['source']}: what is not in the device's cache goes to the host"
    reads = f"{streams} for sequential reads, {others_from} for others"
    yield "automatic", f"{source}, {reads}, and writes {writes}; else the calling core reads it"
    page, readahead = format_size(tuning["page_bytes"]), format_size(tuning["readahead_bytes"])
    threads = _plural(tuning["server_threads"], "server thread")
    depth = f"; keep {tuning['queue_depth']} calls in flight" if tuning["queue_depth"] is not None else ""
    yield "settings", f"pages of {page}, readahead up to {readahead} per stream, {threads}{depth}"


def _storage(facts: Json) -> Lines:
    """The storage that serves a URI, how, and its limits."""
    storage = facts["storage"]
    if storage is None:
        return
    size = _size_after_comma(storage["size_bytes"])
    kind = f" ({storage['kind']}{size})" if storage["kind"] is not None else ""
    yield "path", f"{shown(storage['uri'])}{kind}"
    yield "served by", f"storage {storage['storage']}, {storage['engine']}"
    for fact in storage["facts"]:
        yield "", fact
    if storage["request_timeout_s"] > 0:
        yield "", f"a request fails after {storage['request_timeout_s']:g} s"
    if storage["layout"] is not None:
        yield "layout", layout.sentence(storage["layout"])
    yield from _named("limits", storage["limits"])


def _from(crossover: int | str) -> str:
    if isinstance(crossover, str):
        return crossover
    return f"from {format_size(crossover)} on" if crossover > 0 else "at any size"


def _block_device(device: Json | None) -> str:
    if device is None:
        return "none on this machine (memory, network, or hidden)"
    words = [device["name"]]
    if device["kind"]:
        words.append(device["kind"] + (f" ({device['detail']})" if device["detail"] else ""))
    if device["below"]:
        words.append("on " + " and ".join(device["below"]))
    words += [str(device[key]) for key in ("driver", "model") if device[key]]
    if device["rotational"] is not None:
        words.append("rotational" if device["rotational"] else "not rotational")
    if device["logical_block_bytes"]:
        words.append(f"blocks of {format_size(device['logical_block_bytes'])}")
    return ", ".join(words)


def _direct_io(direct: Json) -> str:
    if direct["possible"] is None:
        return str(direct["note"])
    if not direct["possible"]:
        return f"not possible ({direct['note']})"
    if direct["offset_alignment_bytes"] is None:
        return f"possible; {direct['note']}"
    return (
        f"possible; offsets aligned to {format_size(direct['offset_alignment_bytes'])}, "
        f"memory to {format_size(direct['memory_alignment_bytes'])}"
    )
