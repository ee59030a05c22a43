"""Simulated GRPO runs of known dynamics: real updates on small softmax policies, logged like a trainer."""
