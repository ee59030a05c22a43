"""Priors learned from many logs."""
