"""Errors that the command reports in one line."""

from collections.abc import Sequence


class FerryError(Exception):
    """An error that the user can act on.

    The message is one line: what happened, and what to do next. The command prints it after
    ``ferry: `` on standard error and exits with ``exit_status``.
    """

    exit_status = 1


class FerryErrors(FerryError):
    """Several of them, each of which the command prints in a line of its own."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived; handled like Ctrl-C, with an exit status of its own."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
