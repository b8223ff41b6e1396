"""The shared fixtures of the package's and laboratory's tests; support.py defines them."""

from support import command, data, scratch

__all__ = ["command", "data", "scratch"]
