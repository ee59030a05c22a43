"""Before a run: whether its settings are stable, and which settings to try next."""
