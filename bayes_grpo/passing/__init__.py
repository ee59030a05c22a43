"""pass@1 and pass@k over a training: whether the policy solves more prompts, or the same ones more often."""
