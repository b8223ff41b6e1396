"""The laboratory of Ferry: measures storage and Ferry itself, judges, shows and tunes.

The ``ferry`` command has its commands ``bench``, ``import``, ``study`` and ``tune`` where it is
installed. Nothing of the package ``ferry`` needs it.
"""

__version__ = "0.1.0"
