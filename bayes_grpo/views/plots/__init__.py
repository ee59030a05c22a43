"""Figures of results: one function each, which draws on a new figure or on one that is given."""
