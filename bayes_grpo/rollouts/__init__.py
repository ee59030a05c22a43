"""Records of single completions: what trainers save with their log, and what a mean over them hides."""
