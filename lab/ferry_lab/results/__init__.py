"""The documents of measurements, and their schemas."""
