"""Records of single completions: what trainers save beside their log, and what a mean over them hides."""
