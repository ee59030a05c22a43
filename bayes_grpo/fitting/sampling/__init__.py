"""Posteriors of a regime on rows: NUTS and its checks for what is reported, a fast one for what is used."""
