"""Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.

The public names stand in ``__init__.pyi`` and are imported on first use, so that ``import bayes_grpo`` costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
