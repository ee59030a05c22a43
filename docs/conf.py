"""Sphinx: the documentation, built by `uv run --group docs sphinx-build -W docs docs/_build/html`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

project = "bayes_grpo"
author = "bayes_grpo contributors"
copyright = author
version = release = version_of("bayes-grpo")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
    "_ext.generated",
]
exclude_patterns = ["_build", "_ext", "notebooks/data/*.json", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "bayes_grpo"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_js_files = ["reading.js"]
html_theme_options = {"source_edit_link": "", "navigation_with_keys": True}

# Notebooks are executed by the tests and kept with what they showed; here they are only drawn.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_use_ivar = True
nitpicky = False
