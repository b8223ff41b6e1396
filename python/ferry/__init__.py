"""Ferry's command: measuring, studies, and what this machine offers.

The measured process is the C++ program ``ferry-bench``; this package plans what it measures,
watches it, judges its numbers and shows them.
"""

__version__ = "0.1.0"
