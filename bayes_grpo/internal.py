"""Functions that commands call and that are not public names of the package, imported on first use.

Without it a command would import figures and JAX before it has looked at its arguments.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("bayes_grpo", __file__)
