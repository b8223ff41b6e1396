"""Imports other programs' results."""
