"""Regimes: laws of the reward curve, one file each."""

from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.registry import REGIMES, get_regime

__all__ = ["REGIMES", "Regime", "get_regime"]
