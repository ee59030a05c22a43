"""What a fitted regime misses in its data."""
