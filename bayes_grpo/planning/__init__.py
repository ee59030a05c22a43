"""Before a run: whether its settings are stable, and what group size buys."""
