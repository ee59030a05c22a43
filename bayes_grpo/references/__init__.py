"""Reference runs: several runs of one task read together."""
