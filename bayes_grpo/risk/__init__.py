"""Failure risk of untried settings, learned from public runs whose settings changed."""
