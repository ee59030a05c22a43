"""What public runs say about the paper."""

PAPER_R2 = 0.91
"""R² that the paper reports for each of its runs."""
LEAST = 0.1
"""An exponent nearer to 0 than this counts as none: at most a fifteenth for twice the setting."""
