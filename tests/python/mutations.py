"""Mutated inputs for what reads files: from a kept corpus, by a seeded source."""

from __future__ import annotations

import json
import os
import random
import resource
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_EDGES = b"\x00\x01\x7f\x80\xff"
_NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, 1e308, -1e-300]
_VALUES: list[Any] = [None, True, "", "x", [], {}, [[]], {"a": 1}]
_MEMORY_KIB_MAX = 300 << 10


def seed() -> int:
    """``FERRY_TEST_SEED`` repeats a run that failed."""
    return int(os.environ.get("FERRY_TEST_SEED") or random.SystemRandom().getrandbits(32))


class Mutator:
    """Changes bytes and JSON documents at random."""

    def __init__(self, start: int) -> None:
        self._random = random.Random(start)

    def of_bytes(self, corpus: Sequence[bytes]) -> bytes:
        data = bytearray(self._random.choice(corpus))
        for _ in range(self._random.randint(1, 6)):
            place = self._random.randrange(len(data) + 1)
            length = self._random.randrange(len(data) - place + 1)
            match self._random.randrange(5):
                case 0 if place < len(data):
                    data[place] ^= 1 << self._random.randrange(8)
                case 1 if place < len(data):
                    data[place] = self._random.choice(_EDGES)
                case 2:
                    data[place:place] = self._random.randbytes(self._random.randint(1, 8))
                case 3:
                    del data[place : place + length]
                case _:
                    other = self._random.choice(corpus)
                    data[place:place] = other[self._random.randrange(len(other) + 1) :]
        return bytes(data[:20_000])

    def of_json(self, documents: Sequence[Any]) -> Any:
        """A document with some values replaced, removed or taken from elsewhere in it."""
        document = json.loads(json.dumps(self._random.choice(documents)))
        for _ in range(self._random.randint(1, 3)):
            holders = list(_holders(document))
            if not holders:
                break
            holder = self._random.choice(holders)
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                continue
            key = self._random.choice(keys)
            choice = self._random.randrange(4)
            if choice == 0:
                del holder[key]
            else:
                others = [_NUMBERS, _VALUES, holders][choice - 1]
                holder[key] = json.loads(json.dumps(self._random.choice(others)))
        return document


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from _holders(one)


def refuses_politely(
    use: Callable[[bytes], object],
    make: Callable[[Mutator], bytes],
    times: int,
    expected: type[BaseException] | tuple[type[BaseException], ...],
) -> None:
    """Uses mutated inputs: each works or raises one of ``expected``, without much memory."""
    start = seed()
    mutator = Mutator(start)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(times):
        data = make(mutator)
        try:
            use(data)
        except expected:
            pass
        except BaseException as error:
            error.add_note(f"FERRY_TEST_SEED={start}, input {number}: {data[:2000]!r}")
            raise
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _MEMORY_KIB_MAX, f"FERRY_TEST_SEED={start}"
