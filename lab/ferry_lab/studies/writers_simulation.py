"""Simulates a collective transfer: ranks, writers, the network, servers and metadata.

Each writer opens its file at the metadata server, gathers its group's data, and keeps some requests
in flight to the servers; a read takes the same path back. The transfer ends when the last byte has
arrived. studies.cluster_model has the costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ferry_lab.studies.cluster_model import MB, Cluster
from ferry_lab.studies.discrete_events import Action, CrowdedStation, SimulatedClock, Station

REQUESTS_MAX = 100_000  # of one transfer; where there would be more, requests are larger

Operation = Literal["write", "read"]
Gather = Literal["aggregate", "serial"]


@dataclass(frozen=True)
class SimulatedTransfer:
    """What is simulated: the cluster's job by that many writers."""

    operation: Operation
    writers: int
    # How a group's data comes to its writer: all along, or rank by rank in turn with the writing.
    gather: Gather = "aggregate"


@dataclass(frozen=True)
class SimulationOutcome:
    """What it took. Shares are of the whole time."""

    time_s: float
    opens_s: float  # until the last file was open
    bytes_moved: int  # what the servers took or gave
    requests: int
    request_bytes: int
    servers_busy_share: float  # mean over all servers
    metadata_busy_share: float

    @property
    def bandwidth_mb_per_s(self) -> float:
        """Returns the rate of all ranks together, opening included."""
        return self.bytes_moved / MB / self.time_s


def simulate(cluster: Cluster, transfer: SimulatedTransfer) -> SimulationOutcome:
    """Returns what the transfer takes. Raises ValueError for more writers than ranks, or none."""
    if not 1 <= transfer.writers <= cluster.job.ranks:
        raise ValueError(f"{transfer.writers} writers of {cluster.job.ranks} ranks")
    return _Simulation(cluster, transfer).run()


class _Simulation:
    """One run: what all writers share."""

    def __init__(self, cluster: Cluster, transfer: SimulatedTransfer) -> None:
        self.cluster = cluster
        self.transfer = transfer
        self.clock = SimulatedClock()
        self.writes = transfer.operation == "write"
        servers, metadata = cluster.servers, cluster.metadata
        self.request_bytes, self.stripe_bytes = _grains(cluster)
        self.server_mb_per_s = servers.write_mb_per_s if self.writes else servers.read_mb_per_s
        self.servers = [Station(self.clock) for _ in range(servers.count)]
        self.switch_s = servers.switch_ms / 1000
        self.last_stream = [-1] * servers.count
        self.link_mb_per_s = cluster.client.link_mb_per_s
        self.network_mb_per_s = cluster.network.total_mb_per_s
        self.latency_s = cluster.network.latency_ms / 1000
        self.network = Station(self.clock)
        self.links = defaultdict[int, Station](lambda: Station(self.clock))
        self.exchanges = defaultdict[int, Station](lambda: Station(self.clock))
        backlog = metadata.create_backlog if self.writes else metadata.open_backlog
        self.metadata = CrowdedStation(self.clock, backlog)
        self.opens_s = 0.0
        self.bytes_moved = 0
        self.requests = 0

    def run(self) -> SimulationOutcome:
        for number in range(self.transfer.writers):
            writer = _Writer(self, number)
            self.metadata.serve(self.open_s(number), writer.opened)
        self.clock.run()
        time_s = self.clock.now_s
        total = self.cluster.job.ranks * self.cluster.job.bytes_per_rank
        if self.bytes_moved != total:
            raise AssertionError(f"{self.bytes_moved} bytes of {total} arrived")
        busy_s = sum(station.busy_s for station in self.servers)
        return SimulationOutcome(
            time_s=time_s,
            opens_s=self.opens_s,
            bytes_moved=self.bytes_moved,
            requests=self.requests,
            request_bytes=self.request_bytes,
            servers_busy_share=busy_s / len(self.servers) / time_s,
            metadata_busy_share=self.metadata.busy_s / time_s,
        )

    def open_s(self, writer: int) -> float:
        """A shared file is created by the first alone."""
        metadata = self.cluster.metadata
        creates = self.writes and (writer == 0 or self.cluster.job.file == "per-writer")
        return (metadata.create_ms if creates else metadata.open_ms) / 1000

    def node_of(self, writer: int) -> int:
        """Writers are spread over the nodes as far as there are nodes."""
        nodes = -(-self.cluster.job.ranks // self.cluster.client.ranks_per_node)
        return writer * nodes // self.transfer.writers

    def request(self, node: int, stream: int, server: int, size: int, done: Action) -> None:
        """Brings one request to its server, or its answer from there."""
        link = self.links[node]
        self.requests += 1
        size_mb = size / MB
        link_s, network_s = size_mb / self.link_mb_per_s, size_mb / self.network_mb_per_s
        if self.writes:

            def on_network() -> None:
                self.network.serve(network_s, on_server)

            def on_server() -> None:
                self.servers[server].serve(self.service_s(server, stream, size), done, self.latency_s)

            link.serve(link_s, on_network)
        else:

            def on_network() -> None:
                self.network.serve(network_s, on_link)

            def on_link() -> None:
                link.serve(link_s, done, self.latency_s)

            self.servers[server].serve(self.service_s(server, stream, size), on_network)

    def service_s(self, server: int, stream: int, size: int) -> float:
        """What a request takes that has come to its server."""
        switch_s = self.switch_s if self.last_stream[server] != stream else 0.0
        self.last_stream[server] = stream
        self.bytes_moved += size
        return size / MB / self.server_mb_per_s + switch_s


class _Writer:
    """One writer, or reader: what it has of its group's data, and what is on its way."""

    def __init__(self, simulation: _Simulation, number: int) -> None:
        self.all = simulation
        self.number = number
        self.node = simulation.node_of(number)
        job, writers = simulation.cluster.job, simulation.transfer.writers
        first, end = (job.ranks * n // writers for n in (number, number + 1))
        self.rank_bytes = job.bytes_per_rank
        self.total = (end - first) * self.rank_bytes
        begin = first * self.rank_bytes if job.file == "shared" else 0
        self.pieces = _pieces(simulation, number, begin, self.total)
        self.next_piece: tuple[int, int] | None = next(self.pieces)
        self.is_open = False
        self.in_flight = 0
        self.asked = 0  # bytes of requests that were begun
        self.done = 0  # bytes of requests that are done
        # Its own rank's data is there from the beginning. For a write: bytes that may be asked
        # for. For a read: bytes that were handed out.
        self.gathered = self.rank_bytes
        self.exchanging = False
        self.serial = simulation.transfer.gather == "serial"
        self.in_flight_max = simulation.cluster.client.requests_in_flight
        self._exchange()

    def opened(self) -> None:
        self.is_open = True
        self.all.opens_s = self.all.clock.now_s
        self._pump()

    def _pump(self) -> None:
        """Begins as many requests as it may."""
        while self.is_open and self.next_piece is not None:
            server, size = self.next_piece
            if self.in_flight == self.in_flight_max or self.asked + size > self._may_ask():
                return
            self.in_flight += 1
            self.asked += size
            self.next_piece = next(self.pieces, None)
            self.all.request(self.node, self.number, server, size, partial(self._answered, size))

    def _may_ask(self) -> int:
        """Returns how many bytes may be asked for by now, done ones included."""
        if self.all.writes:
            return self.gathered
        return self.gathered + self.rank_bytes if self.serial else self.total

    def _answered(self, size: int) -> None:
        self.in_flight -= 1
        self.done += size
        self._exchange()
        self._pump()

    def _exchange(self) -> None:
        """Gets the next rank's data, or gives the next rank its own."""
        if self.exchanging or self.gathered == self.total:
            return
        if self.all.writes:
            may = not self.serial or self.done == self.gathered
        else:
            may = self.done >= self.gathered + self.rank_bytes
        if not may:
            return
        self.exchanging = True
        link = self.all.exchanges[self.node]
        client = self.all.cluster.client
        link.serve(self.rank_bytes / MB / client.exchange_mb_per_s, self._exchanged)

    def _exchanged(self) -> None:
        self.exchanging = False
        self.gathered += self.rank_bytes
        self._exchange()
        self._pump()


def _pieces(simulation: _Simulation, file: int, begin: int, size: int) -> Iterator[tuple[int, int]]:
    """Gives server and bytes of each request; none crosses a stripe."""
    job, count = simulation.cluster.job, simulation.cluster.servers.count
    first = file if job.file == "per-writer" else 0
    serial = simulation.transfer.gather == "serial"
    at, end = begin, begin + size
    while at < end:
        stripe = at // simulation.stripe_bytes
        upto = min(at + simulation.request_bytes, (stripe + 1) * simulation.stripe_bytes, end)
        if serial:  # nor from one rank's data into another's
            upto = min(upto, (at // job.bytes_per_rank + 1) * job.bytes_per_rank)
        yield (first + stripe % job.stripe_count) % count, upto - at
        at = upto


def _grains(cluster: Cluster) -> tuple[int, int]:
    """Returns the sizes of requests and of stripes, so that there are not too many to simulate."""
    total = cluster.job.ranks * cluster.job.bytes_per_rank
    request_bytes = min(cluster.servers.request_bytes, cluster.job.stripe_bytes)
    request_bytes *= max(1, -(-total // (REQUESTS_MAX * request_bytes)))
    return request_bytes, max(cluster.job.stripe_bytes, request_bytes)
