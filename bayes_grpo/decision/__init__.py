"""When to stop a run: net value of every stopping step."""
