"""Measuring: plans, the processes that run them, and the frame of a study."""
