"""One account of a run: what happened, what a law may describe, what comes of it, and what to do."""
