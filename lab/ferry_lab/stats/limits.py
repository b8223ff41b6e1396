"""How many pairs it takes to say something of a ratio."""

# Fewer are no verdict.
PAIRS_MIN = 20
# Fewer show no difference, however large. The median of what is measured lies between the smallest
# and the largest of n values in all but 2^(1 - n) of cases, so that 95 % need six.
FINDING_PAIRS_MIN = 6
