"""Job files for ``ferry bench --jobs``: a documented part of fio's format, each section a job."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ferry.errors import FerryError, FerryErrors
from ferry.sizes import LIMIT_BYTES
from ferry.uris import is_uri, with_suffix

_STANDARD_INPUT = "-"
_BLOCK_BYTES = 4096  # fio's default of bs
_MIX_PERCENT = 50  # and of rwmixread
THREADS_MAX = 4096  # of all jobs that run at once
CALLS_MAX = 1 << 28  # of a clone
LOOPS_MAX = 1 << 20
_ZIPF_EXPONENT_MAX = 10


@dataclass(frozen=True)
class BenchJob:
    """A section: one job, with fio's defaults for what it leaves out."""

    name: str
    at: str  # file and line of its head
    group: int  # from 0; stonewall begins a new one
    path: str
    operation: str  # read, write, mixed
    pattern: str = "sequential"
    size_bytes: int = 0  # of each clone; 0: that of the file
    offset_bytes: int = 0  # of the file, where that begins
    passes: int = 1  # so often each clone goes over that
    verify: bool = False
    block_bytes: int = _BLOCK_BYTES
    read_percent: int = 0  # of operation mixed
    clones: int = 1
    shared: bool = False  # a filename is given, over which every clone goes from end to end
    queue_depth: int = 1
    interface: str | None = None  # None, likewise below: as the command line says
    placement: str | None = None
    direct: bool = False
    cold: bool | None = None
    fsync_writes: int = 0  # behind so many writes of a clone
    end_fsync: bool = False
    start_delay_ms: int = 0
    runtime_ms: int = 0  # a limit, or how long the job goes on
    time_based: bool = False
    ramp_ms: int = 0
    rate_bytes_per_s: int = 0  # of each clone


class _WrongError(Exception):
    """What is wrong with a value, and what to do."""


# ---- values --------------------------------------------------------------------------------------

_POWERS = {letter: power for power, letter in enumerate("kmgtp", 1)}
_TIME_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _size(text: str, kb_base: int) -> int:
    """A size as fio means it: ``k`` is ``kb_base`` (1024 unless the file says 1000), ``kib`` the other one."""
    match = re.fullmatch(r"([0-9]{1,19})(?:([kmgtp])(ib|b|i)?|b?)", text.lower())
    if match is None:
        raise _WrongError("is no size that bench takes; write one whole number, like 4k or 1g")
    unit = 2024 - kb_base if match[3] == "ib" else kb_base
    size = int(match[1]) * unit ** _POWERS.get(match[2] or "", 0)
    if not 0 < size < LIMIT_BYTES:
        raise _WrongError("is no size; choose one above zero and below 4 EiB")
    return size


def _offset(text: str, kb_base: int) -> int:
    if re.fullmatch("[0-9]{1,19}%", text):
        raise _WrongError("is a part of the file; write where that begins as a size, like 64m")
    return 0 if re.fullmatch("0{1,19}", text) else _size(text, kb_base)


def _number(least: int, most: int) -> Callable[[str, int], int]:
    def read(text: str, _kb_base: int) -> int:
        if not re.fullmatch("[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise _WrongError(f"is no whole number from {least} to {most}; choose one")
        return int(text)

    return read


def _time(text: str, _kb_base: int) -> int:
    match = re.fullmatch(r"([0-9]{1,19})(ms|s|m|h|d|)", text.lower())
    if match is None or int(match[1]) * _TIME_MS[match[2]] > 365 * _TIME_MS["d"]:
        raise _WrongError("is no time that bench takes; write seconds, or a number with ms, s, m, h or d")
    return int(match[1]) * _TIME_MS[match[2]]


def _switch(text: str, _kb_base: int) -> bool:
    if text not in ("", "0", "1"):
        raise _WrongError("switches something on or off; write 1 or 0")
    return text != "0"


def _word(*words: str) -> Callable[[str, int], str]:
    def read(text: str, _kb_base: int) -> str:
        if text not in words:
            raise _WrongError(f"is none of {', '.join(words)}; choose one")
        return text

    return read


def _path(text: str, _kb_base: int) -> str:
    if not text:
        raise _WrongError("names nothing; name a file or folder")
    if ":" in text and not is_uri(text):
        raise _WrongError("names several files, or holds a colon; name one file in each job")
    return text


_READ_WRITE = {
    "read": ("read", "sequential"),
    "write": ("write", "sequential"),
    "randread": ("read", "random"),
    "randwrite": ("write", "random"),
    "rw": ("mixed", "sequential"),
    "readwrite": ("mixed", "sequential"),
    "randrw": ("mixed", "random"),
}
_ENGINES = {"ferry": "ferry", "sync": "posix", "psync": "posix", "mmap": "mmap", "io_uring": "uring"}


def _kb_base(text: str, _kb_base: int) -> int:
    return int(_word("1000", "1024")(text, 0))


def _engine(text: str, _kb_base: int) -> str:
    if text == "libaio":
        raise _WrongError("is not here; write io_uring, or leave ioengine out for that of -a")
    if text not in _ENGINES:
        raise _WrongError(f"is none of {', '.join(_ENGINES)}; choose one, or leave ioengine out for that of -a")
    return _ENGINES[text]


# Of fio's, those by which contents are compared; which checksum does that, is no question here.
_CHECKSUMS = (
    *("md5", "crc64", "crc32", "crc32c", "crc32c-intel", "crc16", "crc7", "xxhash", "sha1", "sha256", "sha512"),
    *("sha3-224", "sha3-256", "sha3-384", "sha3-512"),
)


def _verify(text: str, _kb_base: int) -> bool:
    if text in ("pattern", "pattern_hdr", "meta", "null"):
        raise _WrongError(
            "is about contents that fio makes; write a checksum, like crc32c, to have the contents compared that "
            "bench makes"
        )
    return _word("0", *_CHECKSUMS)(text, 0) != "0"


def _distribution(text: str, _kb_base: int) -> str:
    if text == "random":
        return "random"
    zipf = re.fullmatch(r"zipf:([0-9]+(?:\.[0-9]+)?)", text)
    if zipf is None or not 0 < float(zipf[1]) <= _ZIPF_EXPONENT_MAX:
        raise _WrongError(f"is neither random nor zipf:EXPONENT, above 0 and at most {_ZIPF_EXPONENT_MAX}; choose one")
    return text


# ---- keys ----------------------------------------------------------------------------------------

_KEYS: dict[str, Callable[[str, int], Any]] = {
    "bs": _size,
    "direct": _switch,
    "directory": _path,
    "end_fsync": _switch,
    "filename": _path,
    "fsync": _number(0, CALLS_MAX),
    "group_reporting": _switch,
    "invalidate": _switch,
    "iodepth": _number(1, 1024),
    "ioengine": _engine,
    "kb_base": _kb_base,
    "loops": _number(1, LOOPS_MAX),
    "numjobs": _number(1, THREADS_MAX),
    "offset": _offset,
    "placement": _word("host", "compute", "service", "automatic"),
    "ramp_time": _time,
    "random_distribution": _distribution,
    "rate": _size,
    "rate_iops": _number(1, LIMIT_BYTES - 1),
    "runtime": _time,
    "rw": _word(*_READ_WRITE),
    "rwmixread": _number(0, 100),
    "rwmixwrite": _number(0, 100),
    "size": _size,
    "startdelay": _time,
    "stonewall": _switch,
    "thread": _switch,
    "time_based": _switch,
    "verify": _verify,
}
_ALIASES = {"blocksize": "bs", "readwrite": "rw", "wait_for_previous": "stonewall"}
# fio's keys that are missing here, and what to do.
_ANSWERS = {
    "bsrange": "write bs with one size; several sizes are several jobs",
    "bssplit": "write bs with one size; several sizes are several jobs",
    "buffered": "write direct",
    "clocksource": "leave it out",
    "cpus_allowed": "--device-cpus names the CPUs of all jobs",
    "description": "leave it out, or write it as a comment",
    "do_verify": "write verify=0 for no second look at what was written",
    "exitall": "write runtime in the jobs that are to end",
    "fallocate": "files are written as they grow: leave it out",
    "fdatasync": "write fsync, which syncs behind so many writes",
    "file_service_type": "a job has one file: leave it out",
    "filesize": "write size",
    "fsync_on_close": "write end_fsync=1, which syncs before closing",
    "gtod_reduce": "up to 64 KiB one call in 64 is timed: leave it out",
    "io_size": "write size",
    "iodepth_batch": "leave it out",
    "lat_percentiles": "--latency shows the percentiles of every call",
    "name": "the section's head names the job",
    "norandommap": "write random_distribution=zipf:EXPONENT, or leave it out: each place is visited once",
    "nrfiles": "a job has one file for each of numjobs; leave it out, or write several jobs",
    "offset_increment": "clones share a part of a file, or have a file each; write a job for each part",
    "overwrite": "--overwrite writes over files that exist",
    "percentile_list": "leave it out",
    "randrepeat": "offsets are the same in every repeat: leave it out",
    "randseed": "leave it out",
    "refill_buffers": "contents differ in every block: leave it out",
    "scramble_buffers": "contents differ in every block: leave it out",
    "thinktime": "write rate_iops, by which a job pauses between its calls",
    "unlink": "files that bench makes are removed: leave it out",
    "verify_pattern": "contents differ in every block: leave it out",
}


@dataclass
class _Section:
    """What a section says: by key the value, and where it stands."""

    name: str
    at: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)  # the keys that no global section has said


def read_jobs(name: str) -> list[BenchJob]:
    """Returns the jobs of a file, or of standard input (``-``). Raises FerryError."""
    shown = "standard input" if name == _STANDARD_INPUT else name
    try:
        if name == _STANDARD_INPUT:
            text = sys.stdin.read()
        else:
            with open(name, encoding="utf-8-sig") as file:  # a byte order mark is no part of it
                text = file.read()
    except FileNotFoundError:
        raise FerryError(f"{name} does not exist; name a job file") from None
    except OSError as error:
        raise FerryError(f"{name}: {error.strerror}; name a job file that can be read") from None
    except UnicodeDecodeError:
        raise FerryError(f"{shown} is no text; name a job file") from None
    sections = _read_sections(shown, text)
    if not sections:
        raise FerryError(f"{shown} has no job; a line like [reader] begins one")
    jobs: list[BenchJob] = []
    wrong: list[str] = []
    group = 0
    for number, section in enumerate(sections):
        if number and section.values.get("stonewall"):
            group += 1
        try:
            _check_name(section, sections[:number])
            jobs.append(_make_job(section, group))
        except FerryError as error:
            wrong.append(str(error))
    if wrong:
        raise FerryErrors(wrong)
    return jobs


def _check_name(section: _Section, before: Sequence[_Section]) -> None:
    if any(other.name == section.name for other in before):
        raise FerryError(f"{section.at}: there are two jobs [{section.name}]; choose another name")
    if re.fullmatch("group [0-9]+", section.name):
        raise FerryError(f"{section.at}: [{section.name}] is the name of all jobs together; choose another")


def _read_sections(shown: str, text: str) -> list[_Section]:
    """Returns the jobs' sections, each with what the global ones before it say."""
    shared = _Section("global", "")
    sections: list[_Section] = []
    wrong: list[str] = []
    for name, at, lines in _split(shown, text):
        if name == shared.name:
            wrong += _read_lines(shared, lines)
            continue
        sections.append(_Section(name, at, dict(shared.values), dict(shared.places)))
        wrong += _read_lines(sections[-1], lines)
    if wrong:
        raise FerryErrors(wrong)
    return sections


_Lines = list[tuple[str, str, str]]  # key, value, and where the line stands


def _split(shown: str, text: str) -> list[tuple[str, str, _Lines]]:
    """Returns the name of each section, where it begins, and its lines."""
    found: list[tuple[str, str, _Lines]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line, at = re.split("[#;]", raw)[0].strip(), f"{shown}:{number}"
        if not line:
            continue
        if head := re.fullmatch(r"\[(.+)\]", line):
            found.append((head[1], at, []))
        elif not found:
            raise FerryError(f"{at}: '{line}' stands before any section; begin with a line like [global] or [reader]")
        else:
            key, _, value = (part.strip() for part in line.partition("="))
            found[-1][2].append((_ALIASES.get(key, key), value, at))
    return found


def _read_lines(section: _Section, lines: _Lines) -> list[str]:
    """Reads what sizes depend on first, as fio does. Returns what is wrong, in the order of the lines."""
    wrong: dict[str, str] = {}
    for key, value, at in sorted(lines, key=lambda line: line[0] != "kb_base"):
        if key not in _KEYS:
            wrong[at] = f"{at}: {key}: {_answer(key)}"
            continue
        try:
            section.values[key] = _KEYS[key](value, section.values.get("kb_base", 1024))
        except _WrongError as error:
            wrong[at] = f"{at}: {key}: '{value}' {error}"
        section.places[key] = at
        section.own.add(key)
    return [wrong[at] for _, _, at in lines if at in wrong]


def _answer(key: str) -> str:
    if answer := _ANSWERS.get(key):
        return f"ferry bench does not take this key of fio's; {answer}"
    if near := difflib.get_close_matches(key, _KEYS, 1, 0.75):
        return f"ferry bench does not know this key; did you mean {near[0]}?"
    return f"ferry bench does not know this key; leave it out, or write one of {', '.join(_KEYS)}"


# ---- jobs ----------------------------------------------------------------------------------------


def _make_job(section: _Section, group: int) -> BenchJob:
    values = section.values

    def fail(key: str, text: str) -> FerryError:
        return FerryError(f"{section.places.get(key, section.at)}: [{section.name}] {text}")

    operation, pattern = _READ_WRITE[values.get("rw", "read")]
    distribution = values.get("random_distribution", "random")
    if distribution != "random" and pattern == "random":
        pattern = distribution
    elif distribution != "random" and "random_distribution" in section.own:
        raise fail(
            "random_distribution", "random_distribution is for random offsets; write rw=randread, randwrite or randrw"
        )
    percent = _read_percent(section, fail)
    if operation == "mixed" and percent in (0, 100):
        operation = "read" if percent else "write"
    runtime_ms, time_based = values.get("runtime", 0), values.get("time_based", False)
    if time_based and not runtime_ms:
        raise fail("time_based", "time_based needs a time; write runtime=60")
    if values.get("ramp_time") and not time_based:
        raise fail("ramp_time", "ramp_time needs a job that goes on for a time; write time_based and runtime=60")
    block_bytes = values.get("bs", _BLOCK_BYTES)
    size_bytes = values.get("size", 0)
    if size_bytes % block_bytes:
        raise fail("size", "size is no multiple of bs; choose one that is")
    if size_bytes + values.get("offset", 0) >= LIMIT_BYTES:
        raise fail("offset", "offset and size together are below 4 EiB; choose a smaller offset")
    if "rate" in values and "rate_iops" in values:
        raise fail("rate_iops", "rate and rate_iops exclude each other; leave one out")
    rate = values.get("rate", values.get("rate_iops", 0) * block_bytes)
    if rate and operation == "mixed":
        raise fail(
            "rate" if "rate" in values else "rate_iops",
            "a rate holds for reads and writes apart in fio, which bench cannot do; write a job for each",
        )
    if rate >= LIMIT_BYTES:
        raise fail("rate_iops", "a rate is below 4 EiB/s; choose a lower rate_iops")
    queue_depth = values.get("iodepth", 1)
    if rate and queue_depth > 1:
        raise fail("iodepth", "a rate is for one call at a time; write iodepth=1 and a larger numjobs")
    if values.get("fsync") and operation != "read" and queue_depth > 1:
        raise fail("fsync", "fsync is for one call at a time; write iodepth=1, or end_fsync=1")
    clones, shared = values.get("numjobs", 1), "filename" in values
    if shared and clones > 1 and operation == "mixed":
        raise fail(
            "numjobs",
            "several clones that read and write one file cannot be verified; leave out filename, for a file each",
        )
    if not shared and PurePath(section.name).name != section.name:
        raise fail("", "the name of a job without filename names its file; leave out the slash, or write filename")
    return BenchJob(
        name=section.name,
        at=section.at,
        group=group,
        path=_path_of(section, clones),
        operation=operation,
        pattern=pattern,
        size_bytes=size_bytes,
        offset_bytes=values.get("offset", 0),
        passes=1 if time_based else values.get("loops", 1),
        verify=values.get("verify", False),
        block_bytes=block_bytes,
        read_percent=percent if operation == "mixed" else 0,
        clones=clones,
        shared=shared,
        queue_depth=queue_depth,
        interface=values.get("ioengine"),
        placement=values.get("placement"),
        direct=values.get("direct", False),
        cold=values.get("invalidate"),
        fsync_writes=0 if operation == "read" else values.get("fsync", 0),
        end_fsync=values.get("end_fsync", False) and operation != "read",
        start_delay_ms=values.get("startdelay", 0),
        runtime_ms=runtime_ms,
        time_based=time_based,
        ramp_ms=values.get("ramp_time", 0),
        rate_bytes_per_s=rate,
    )


def _read_percent(section: _Section, fail: Callable[[str, str], FerryError]) -> int:
    reads, writes = section.values.get("rwmixread"), section.values.get("rwmixwrite")
    if reads is not None and writes is not None and reads + writes != 100:
        raise fail("rwmixwrite", "rwmixread and rwmixwrite are not 100 together; leave one out")
    if reads is not None:
        return int(reads)
    return 100 - int(writes) if writes is not None else _MIX_PERCENT


def _path_of(section: _Section, clones: int) -> str:
    """Returns fio's name of the only file; with several clones the name that their files begin with."""
    name = section.values.get("filename") or section.name + (".0.0" if clones == 1 else "")
    folder = section.values.get("directory", "")
    if is_uri(name):
        return name
    return with_suffix(folder, f"/{name}") if is_uri(folder) else os.path.abspath(os.path.join(folder, name))
