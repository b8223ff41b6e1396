"""Reads what other programs measured."""
