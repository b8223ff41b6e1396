"""The shared fixtures of the package's and laboratory's tests; support.py and served.py define them."""

from served import node, server
from support import command, data, path, scratch

__all__ = ["command", "data", "node", "path", "scratch", "server"]
