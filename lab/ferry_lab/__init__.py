"""The laboratory of Ferry: measures storage and Ferry itself, judges, shows and tunes.

The ``ferry`` command has its commands ``bench``, ``import``, ``study`` and ``tune`` where it is
installed. Nothing of the package ``ferry`` needs it.
"""

import os

# Nothing here computes in parallel with NumPy, whose library otherwise starts threads beside what is
# measured, and ends the process where it cannot.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
