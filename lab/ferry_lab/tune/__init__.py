"""``ferry tune``: finds the fastest settings here, and writes the profile."""
