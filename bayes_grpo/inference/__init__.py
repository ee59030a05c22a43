"""Priors, the compiled sampler, convergence checks and the fit."""
