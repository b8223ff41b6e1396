"""The fixtures that tests of the package and of the laboratory share; support.py has them."""

from support import command, data, scratch

__all__ = ["command", "data", "scratch"]
