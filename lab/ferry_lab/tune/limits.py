"""Limits of ``ferry tune``'s options."""

BUDGET_S = 120
BUDGET_S_MIN = 10
RANKS_MAX = 256
