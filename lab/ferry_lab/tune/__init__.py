"""``ferry tune``: finds the settings that are fastest here, and writes the profile."""
