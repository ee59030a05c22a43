"""Before a run: whether its settings are stable, what group size buys, and which settings to try next."""
