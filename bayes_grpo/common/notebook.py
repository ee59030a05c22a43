"""HTML of a result in a notebook; results lie below the views, so the package registers the function that makes it."""

from functools import singledispatch


@singledispatch
def notebook_html(result: object) -> str:
    """HTML of a result: its line alone, until ``bayes_grpo/__init__.py`` registers answer, table and figure."""
    from html import escape

    return f"<p>{escape(repr(result))}</p>"
