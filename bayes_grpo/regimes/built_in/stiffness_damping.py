"""Regime `stiffness_damping`: the oscillator in terms of stiffness and damping."""

from bayes_grpo.regimes.built_in.oscillator import StiffnessDamping

REGIME = StiffnessDamping()
