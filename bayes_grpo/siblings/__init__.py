"""Siblings: several runs of one task read together."""
