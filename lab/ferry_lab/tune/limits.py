"""What ``ferry tune`` can be asked for."""

BUDGET_S = 120
BUDGET_S_MIN = 10
RANKS_MAX = 256
