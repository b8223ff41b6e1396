"""The shared fixtures of the package's and laboratory's tests; support.py defines them."""

from support import command, data, path, scratch

__all__ = ["command", "data", "path", "scratch"]
