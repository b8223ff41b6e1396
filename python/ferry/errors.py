"""Errors that the command reports in one line."""


class FerryError(Exception):
    """An error that the user can act on.

    The message is one line: what happened, and what to do next. The command prints it after
    ``ferry: `` on standard error and exits with ``exit_status``.
    """

    exit_status = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived; handled like Ctrl-C, with an exit status of its own."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
