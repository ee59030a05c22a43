"""Settings of the next run: linear thresholds, outcomes of others, noise at equal cost."""
