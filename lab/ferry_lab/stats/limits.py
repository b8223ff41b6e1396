"""The number of pairs that a verdict or a finding needs."""

# Fewer give no verdict.
PAIRS_MIN = 20
# Fewer show no difference, however large. The true median is between the smallest and the largest
# of n values with probability 1 - 2^(1 - n), so 95 % needs six.
FINDING_PAIRS_MIN = 6
