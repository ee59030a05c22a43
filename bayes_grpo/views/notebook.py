"""A result in a notebook: answer, table and figure of its document."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

from bayes_grpo.common.document import Document, Tabular
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.views.view import view

_DOTS = 80


def html_of_result(result: Any) -> str:
    """HTML of a result's document; all text in it is escaped."""
    try:
        document = view(result)
    except (BayesGrpoError, TypeError) as error:  # too few rows, or nothing that shows it
        return f"<p><b>{escape(type(result).__name__)}</b> {escape(str(error))}</p>"
    lines = [f"<b>{escape(document.first_lines[0])}</b>", *map(escape, document.first_lines[1:])]
    parts = [f"<p>{'<br>'.join(lines)}</p>"]
    if document.table is not None:
        parts.append(_table(document.table))
    parts += [f"<p>{escape(x)}</p>" for x in (document.about, document.unchecked) if x]
    return "\n".join((*parts, _picture(document)))


def _table(table: Tabular) -> str:
    heads = "".join(f"<th>{escape(c.text)}</th>" for c in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(c.text)}</td>' for c in row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _picture(document: Document) -> str:
    if document.plot is None:
        return ""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 9.2 * document.plot.ratio), layout="constrained")
    file = io.BytesIO()
    try:
        document.plot.draw(figure=figure)
        figure.savefig(file, format="png", dpi=_DOTS)
    except BayesGrpoError:
        return ""
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(document.plot.alt)}" style="max-width:100%" src="data:image/png;base64,{data}">'
