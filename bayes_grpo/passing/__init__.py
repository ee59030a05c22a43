"""pass@1 and pass@k of completions over a training."""
