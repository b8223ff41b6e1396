"""``python -m ferry``: the ``ferry`` command."""

import signal
import sys


def main() -> int:
    """Runs the command; returns the exit status.

    Until the modules are loaded, Ctrl-C ends the process at once: nothing needs cleaning up yet.
    """
    # Where Ctrl-C is ignored, as in a script's background, it stays so.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ferry import cli

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
