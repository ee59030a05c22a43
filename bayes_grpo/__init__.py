"""Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.

The public names stand in ``__init__.pyi`` and are imported on first use, so that ``import bayes_grpo`` costs nothing.
"""

import lazy_loader

from bayes_grpo.common.notebook import notebook_html

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, imported on first use; the version as it is installed."""
    if name == "__version__":
        from importlib.metadata import version

        return version("bayes-grpo")
    return _public(name)


@notebook_html.register(object)
def _html(result: object) -> str:
    from bayes_grpo.views.notebook import html_of_result

    return html_of_result(result)
