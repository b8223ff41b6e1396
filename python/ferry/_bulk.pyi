"""The extension module (src/bindings/python). Use it through ``ferry``; lengths and offsets are in bytes."""

from collections.abc import Callable, Sequence
from typing import Any

_list = list  # where a method has that name
_Failure = tuple[int, bytes, int, int, int]

class AlignedMemory:
    """Memory in huge pages, shown by the buffer protocol."""

    def __init__(self, size: int) -> None: ...

class HostTensor:
    """Host memory behind a DLPack capsule, shown as bytes. Raises ValueError: not contiguous."""

    def __init__(self, capsule: Any) -> None: ...
    @property
    def writable(self) -> bool:
        """Whether the capsule says so; those from before DLPack 1.0 do not."""

class GpuView:
    """Memory of a GPU that belongs to another object, shown by the buffer protocol to transfers.

    Made of an address, its bytes, whether they may be written, and their owner; or of a DLPack
    capsule. Raises ValueError for memory that the CUDA driver does not know.
    """

    def __init__(self, *arguments: Any) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class GpuAllocation:
    """Memory of a GPU. Raises OSError (ENODEV, ENOMEM)."""

    def __init__(self, device: int, bytes: int) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def copy_to_host(self, target: Any, offset: int) -> None:
        """Fills ``target`` from ``offset`` bytes on."""

def end() -> None:
    """The interpreter is about to end: all engines do, and no thread is left that may take its lock."""

def expect_leaks() -> None:
    """Objects stay, those of the parent in a child of fork say, and nothing is said about them."""

def synchronize_stream(address: int, stream: int) -> None:
    """Waits for a stream of the GPU whose memory ``address`` is. Raises OSError."""

class Slab:
    """Memory that small files were read into."""

class File:
    def __init__(self, engine: Engine, path: bytes, flags: int, mode: int) -> None: ...
    @staticmethod
    def of_parent(engine: Engine, parents: File) -> File: ...
    def read_at(self, buffer: Any, offset: int) -> int: ...
    def write_at(self, buffer: Any, offset: int) -> int: ...
    def append(self, buffer: Any) -> int:
        """Returns the size of the file afterwards."""
    def size(self) -> int: ...
    def truncate(self, bytes: int) -> None: ...
    def sync(self) -> None: ...
    def descriptor(self) -> int: ...
    def close(self) -> None: ...

class Transfer:
    def __init__(
        self, engine: Engine, parts: Sequence[tuple[File, Any, int]], writing: bool, on_end: Callable[[], None]
    ) -> None:
        """Starts it; ``on_end`` is called on a thread of the engine, or at once."""
    def done(self) -> bool: ...
    def wait(self, timeout_s: float | None = None) -> bool: ...
    def let_go(self) -> None:
        """Once done: buffers and files are their owners' again at once."""
    def cancel(self) -> None: ...
    def results(self) -> list[int]:
        """Bytes of each part, or a negative errno."""
    def failures(self) -> list[_Failure]:
        """Part, path, offset, bytes and errno of each part that failed."""
    def progress(self) -> tuple[int, int]: ...

class Engine:
    def __init__(self, workers: int, depth: int, task_bytes: int, route: str, storage: str) -> None: ...
    def options(self) -> dict[str, Any]: ...
    def statistics(self) -> dict[str, int]: ...
    def explain(self, path: bytes) -> dict[str, Any]: ...
    def status(self, path: bytes) -> tuple[int, int, int]:
        """Size in bytes, time of change in nanoseconds since 1970, and stat's mode."""
    def unlink(self, path: bytes) -> None: ...
    def rename(self, source: bytes, target: bytes) -> None: ...
    def list(self, path: bytes) -> _list[tuple[bytes, tuple[int, int, int]]]:
        """Names, each with the ``status``."""
    def make_directory(self, path: bytes, mode: int) -> None: ...
    def remove_directory(self, path: bytes) -> None: ...
    def shut_down(self) -> None: ...
    def read_batch(self, parts: Sequence[tuple[File, Any, int]]) -> tuple[_list[int], _list[_Failure]]: ...
    def write_batch(self, parts: Sequence[tuple[File, Any, int]]) -> tuple[_list[int], _list[_Failure]]: ...
    def read_files(self, paths: _list[bytes]) -> tuple[_list[memoryview | None], _list[tuple[int, int]]]:
        """Contents, None where there are none; and the failures as (index, errno)."""

def cache_line_bytes() -> int:
    """As this was compiled for, and kernels must be."""

class GpuRuntime:
    def __init__(
        self,
        arena_bytes: int,
        cache_bytes: int,
        page_bytes: int,
        groups: int,
        device: int,
        placement: str,
        server_threads: int,
        files_max: int,
        staging_bytes: int,
        pull_bytes: int,
    ) -> None: ...
    def context(self) -> int: ...
    def own_group(self) -> int: ...
    def shut_down(self, timeout_s: float) -> tuple[bool, int, list[str]]:
        """Whether it finished, how many files were open, and what went wrong."""
    def statistics(self) -> dict[str, int]: ...
    def dirty_pages(self) -> int: ...
