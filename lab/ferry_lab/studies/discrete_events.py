"""A discrete-event simulation: a clock, and stations with queues.

Times are seconds. Nothing is random, and simultaneous events happen in the order of their requests,
so equal calls always give equal times.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

Action = Callable[[], None]


class SimulatedClock:
    """What will happen, in the order of time."""

    def __init__(self) -> None:
        """Begins at 0."""
        self.now_s = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._asked = 0

    def at(self, time_s: float, action: Action) -> None:
        """Has ``action`` happen at ``time_s``, which is not before now."""
        self._asked += 1
        heapq.heappush(self._events, (time_s, self._asked, action))

    def run(self) -> None:
        events, next_event = self._events, heapq.heappop
        while events:
            self.now_s, _, action = next_event(events)
            action()


class Station:
    """Serves one after the other, in the order of arrival."""

    def __init__(self, clock: SimulatedClock) -> None:
        """Begins idle."""
        self._clock = clock
        self._free_at_s = 0.0
        self.busy_s = 0.0

    def serve(self, service_s: float, done: Action, then_s: float = 0.0) -> None:
        """Serves for ``service_s`` when those before are done; ``done`` happens ``then_s`` later.

        Arrivals come in the order of time, so when each ends is known as it arrives.
        """
        now_s, free_at_s = self._clock.now_s, self._free_at_s
        self._free_at_s = free_at_s = (now_s if now_s > free_at_s else free_at_s) + service_s
        self.busy_s += service_s
        self._clock.at(free_at_s + then_s, done)


class CrowdedStation:
    """A station that serves the slower the more are waiting behind: service * (1 + waiting / n)."""

    def __init__(self, clock: SimulatedClock, backlog: float) -> None:
        """Takes the number of those waiting, ``backlog``, that doubles a service time."""
        self._clock = clock
        self._backlog = backlog
        self._waiting: deque[tuple[float, Action]] = deque()
        self._serving = False
        self.busy_s = 0.0

    def serve(self, service_s: float, done: Action) -> None:
        """Serves when those before are done; ``service_s`` is what it takes with nobody waiting."""
        self._waiting.append((service_s, done))
        if not self._serving:
            # Those that arrive in this very moment are waiting, too, when it begins.
            self._serving = True
            self._clock.at(self._clock.now_s, self._begin)

    def _begin(self) -> None:
        service_s, done = self._waiting.popleft()
        service_s *= 1 + len(self._waiting) / self._backlog
        self.busy_s += service_s
        self._clock.at(self._clock.now_s + service_s, lambda: self._end(done))

    def _end(self, done: Action) -> None:
        self._serving = bool(self._waiting)
        if self._serving:
            self._begin()
        done()
