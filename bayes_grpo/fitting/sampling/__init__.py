"""Posteriors of a regime on rows: NUTS, its checks, importance weights."""
