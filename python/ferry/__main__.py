"""``python -m ferry``: the ``ferry`` command."""

import sys

from ferry.cli import main

if __name__ == "__main__":
    sys.exit(main())
