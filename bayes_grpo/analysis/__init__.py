"""What is computed from runs and fits."""
