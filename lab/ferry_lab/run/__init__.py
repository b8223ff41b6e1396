"""Measuring: plans, what runs them, the frame of a study, and the places that it measures in."""
