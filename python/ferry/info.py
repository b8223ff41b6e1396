"""``ferry info``: what this machine offers, and how and why a path is served."""

from __future__ import annotations

import textwrap
from typing import Any

from rich.console import Console

from ferry import file_systems, info_storage, layout, output_files, terminal
from ferry.errors import FerryError
from ferry.files import check_exists
from ferry.native import read_info
from ferry.sizes import format_size
from ferry.uris import is_uri

Json = dict[str, Any]

_INDENT = 14


def run(path: str | None, json_path: str | None, overwrite: bool) -> None:
    """Prints the facts, and writes the JSON file (schema ``ferry.info/2``). Raises FerryError."""
    output_files.check_output(json_path, overwrite)
    if path is not None and not is_uri(path):
        check_exists(path)
    facts = read_info(path)
    if json_path != "-":
        console = terminal.output_console()
        _print_machine(console, facts)
        if facts["path"] is not None:
            _print_path(console, facts["path"])
            _print_profile(console, facts)
        if facts["storage"] is not None:
            console.print()
            for name, value in info_storage.lines(facts["storage"]):
                _line(console, name, value)
    if json_path is not None:
        output_files.write_json(json_path, facts, overwrite)
    if facts["storage"] is not None and facts["storage"]["problem"] is not None:
        raise FerryError(facts["storage"]["problem"])


def _line(console: Console, name: str, value: str) -> None:
    first = f"{name:<{_INDENT}}"
    lines = textwrap.wrap(value, max(console.width - _INDENT, 30), break_long_words=False)
    for line in lines or [""]:
        console.print(f"{first}{line}", soft_wrap=True)
        first = " " * _INDENT


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _print_machine(console: Console, facts: Json) -> None:
    machine, runtime, built_in = facts["machine"], facts["runtime"], facts["built_in"]
    virtual = ", in a virtual machine" if machine["virtual_machine"] else ""
    _line(console, "machine", f"{machine['cpu_model'] or machine['architecture']}{virtual}")
    _line(
        console,
        "",
        f"{machine['kernel']}, {format_size(machine['memory_bytes'])} of memory, "
        f"CPUs {machine['cpus_allowed']} allowed ({machine['cpus_usable']} usable)",
    )
    _line(
        console,
        "device",
        f"{runtime['device']}: CPUs {runtime['device_cpus']}, "
        f"{_plural(runtime['device_threads'], 'thread')}",
    )
    _line(console, "arena", runtime["arena_pages"])
    _line(
        console,
        "I/O server",
        f"CPUs {runtime['server_cpus']}, {_plural(runtime['server_threads'], 'thread')}, "
        f"{runtime['storage_engine']}",
    )
    _print_gpus(console, facts["gpu"])
    _print_placements(console, facts)
    if facts["path"] is None:
        _print_profile(console, facts)
    _print_clients(console, facts["clients"])
    for note in runtime["notes"] or ["none"]:
        _line(console, "degraded", note)
    kinds = (f"{kind} {', '.join(names)}" for kind, names in built_in.items())
    _line(console, "built in", "; ".join(kinds))
    _line(console, "version", facts["versions"]["ferry"])


def _print_gpus(console: Console, gpu: Json) -> None:
    name = "GPU"
    for device in gpu["devices"]:
        _line(
            console,
            name,
            f"cuda:{device['ordinal']}: {device['name']}, {format_size(device['memory_bytes'])}, "
            f"compute capability {device['compute_capability']}, at {device['pci_address']}",
        )
        name = ""
    if gpu["bulk_copies"] is not None:
        _line(console, name, f"bulk copies by {gpu['bulk_copies']['path']}; {gpu['bulk_copies']['why']}")
    if gpu["problem"] is not None:
        _line(console, name, f"none: {gpu['problem']}" if name else gpu["problem"])


_PLACEMENTS = {
    "host": "in the I/O server, without a cache in the device",
    "compute": "on the calling core, through the device's page cache",
    "service": "on reserved cores or the I/O server's, through that cache",
    "automatic": "one of these, chosen for each call",
}


def _print_placements(console: Console, facts: Json) -> None:
    name = "placements"
    for placement in facts["built_in"]["placements"]:
        default = " (the default)" if placement == facts["default_placement"] else ""
        _line(console, name, f"{placement:<10} {_PLACEMENTS[placement]}{default}")
        name = ""
    runtime = facts["runtime"]
    service = runtime["service"]
    if service is not None and service["threads"] > 0:
        served = f"CPUs {service['cpus']}, {_plural(service['threads'], 'thread')}"
        _line(console, "service", served)
    cache = facts["page_cache"]
    size = format_size(cache["cache_bytes"]) if cache["cache_bytes"] > 0 else "none"
    _line(
        console,
        "page cache",
        f"{size} unless a program asks for one; pages of {format_size(cache['page_bytes'])} "
        f"({format_size(cache['page_bytes_min'])} to {format_size(cache['page_bytes_max'])})",
    )
    if cache["cache_bytes"] == 0:
        _line(console, "", "without it, every placement is host; ferry bench sizes it for its file")


def _print_clients(console: Console, clients: list[Json] | None) -> None:
    """Which remote storages can be used, and what to install for the others."""
    name = "clients"
    for client in clients or []:
        answer = client["problem"] or client["library"]
        _line(console, name, f"{client['storage']}: {answer}")
        name = ""


def _print_path(console: Console, path: Json) -> None:
    size = f", {format_size(path['size_bytes'])}" if path["size_bytes"] is not None else ""
    console.print()
    _line(console, "path", f"{path['path']} ({path['kind']}{size})")
    _line(console, "device", "cpu")
    system = path["file_system"]
    free = f", {format_size(system['free_bytes'])} free" if system["free_bytes"] else ""
    _line(console, "file system", f"{file_systems.on_mount_point(system)}{free}")
    if known := ", ".join(filter(None, (system["source"], system["options"]))):
        _line(console, "", known)
    _line(console, "block device", _block_device(system["block_device"]))
    _line(console, "direct I/O", _direct_io(path["direct_io"]))
    served = path["served"]
    _line(console, "served by", f"storage {served['storage']}, {served['engine']}")
    _line(console, "", served["why"])
    for note in served["notes"]:
        _line(console, "", note)
    if path["layout"] is not None:
        _line(console, "layout", layout.sentence(path["layout"]))


def _print_profile(console: Console, facts: Json) -> None:
    """The profile, and what `automatic` decides from it."""
    profile, tuning = facts["profile"], facts["tuning"]
    if profile["path"] is not None:
        applies = " applies" if profile["applies"] else " does not apply"
        where = f"{applies} to {profile['storage']}" if profile["storage"] else ""
        _line(console, "profile", f"{profile['path']}{where}: {profile['why']}")
    else:
        _line(console, "profile", f"none: {profile['why']}")
    others = [name for name in profile["storages"] if name != profile["storage"]]
    if others:
        _line(console, "", f"files on {', '.join(others)} have their own settings")
    crossovers = tuning["crossovers"]
    _line(
        console,
        "automatic",
        f"{tuning['source']}: what is not in the device's cache goes to the host, "
        f"{_from(crossovers['host_stream_read_bytes_min'])} for sequential reads, "
        f"{_from(crossovers['host_read_bytes_min'])} for others, and writes "
        f"{_from(crossovers['host_write_bytes_min'])}; else the calling core reads it",
    )
    depth = tuning["queue_depth"]
    _line(
        console,
        "settings",
        f"pages of {format_size(tuning['page_bytes'])}, readahead up to "
        f"{format_size(tuning['readahead_bytes'])} per stream, "
        f"{_plural(tuning['server_threads'], 'server thread')}"
        + (f"; keep {depth} calls in flight" if depth is not None else ""),
    )


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
        return f"{direct['note']}"
    if not direct["possible"]:
        return f"not possible ({direct['note']})"
    if direct["offset_alignment_bytes"] is None:
        return f"possible; {direct['note']}"
    return (
        f"possible; offsets aligned to {format_size(direct['offset_alignment_bytes'])}, "
        f"memory to {format_size(direct['memory_alignment_bytes'])}"
    )
