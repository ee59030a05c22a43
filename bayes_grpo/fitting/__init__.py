"""A run and a regime in, a checked posterior out."""
