"""GRPO on a small transformer that writes tokens: real failures with known causes (extra ``lab``)."""
