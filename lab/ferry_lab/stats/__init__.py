"""What numbers show: bounds, verdicts, comparisons, and where curves cross."""
