"""Made from code and results when the documentation is built: public names, commands, pictures."""

from __future__ import annotations

import ast
import base64
import inspect
import json
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.files import atomic_write
from benchmarks.paper.pictures import draw_all

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOMS = {
    "logs": "Reading logs",
    "rollouts": "Rollouts: single completions",
    "rows": "Rows: one signal of a run",
    "regimes": "Regimes: models of the reward curve",
    "fitting": "Fitting",
    "comparison": "Comparing regimes",
    "checking": "Checking a fit",
    "forecasting": "Forecasting",
    "backtesting": "Backtesting",
    "decision": "Deciding when to stop",
    "diagnosis": "Diagnosing",
    "analysis": "Analysis of a run",
    "families": "Families of runs",
    "planning": "Before a run",
    "batches": "Many runs in one table",
    "watching": "Runs that go on",
    "simulate": "Simulating",
    "views": "Figures and documents of results",
    "report": "The page",
    "common": "Errors and files",
}
"""Room → its heading, in the order in which a reader meets them."""

_IMPORT = re.compile(r"^from \.([\w.]+) import (?:\(\s*)?\w+ as (\w+)", re.MULTILINE)


def public_names(stub: Path) -> dict[str, list[tuple[str, str]]]:
    """Room → module and name of what it offers, as the stub of the package states them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for module, name in _IMPORT.findall(stub.read_text(encoding="utf-8")):
        found.setdefault(module.partition(".")[0], []).append((f"bayes_grpo.{module}", name))
    return found


def names_page(names: dict[str, list[tuple[str, str]]]) -> str:
    """Every public name in a line, a table a room, each leading to its page."""
    rooms = _in_order(names)
    lines = ["# Public names", "", "Everything below is imported from `bayes_grpo`: `from bayes_grpo import fit`.", ""]
    for room in rooms:
        lines += [f"## {ROOMS.get(room, room)}", "", "| | |", "|---|---|"]
        for module, name in names[room]:
            lines.append(f"| [`{name}`](api/{room}.md#{name.lower()}) | {_first_sentence(_doc_of(module, name))} |")
        lines.append("")
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *(f"api/{room}" for room in rooms), "```", ""])


def room_page(room: str, names: list[tuple[str, str]]) -> str:
    """The names of a room with their docstrings, under the paths by which they are imported."""
    lines = [f"# {ROOMS.get(room, room)}", ""]
    for module, name in names:
        thing = getattr(import_module(module), name)
        lines += [f"## {name}", "", "```{eval-rst}"]
        if isinstance(thing, type) or callable(thing):
            lines.append(f".. auto{'class' if isinstance(thing, type) else 'function'}:: bayes_grpo.{name}")
        else:
            lines += [f".. py:data:: bayes_grpo.{name}", ""]
            lines += [f"   {line}".rstrip() for line in _doc_of(module, name).splitlines()]
        lines += ["```", ""]
    return "\n".join(lines)


def _in_order(names: dict[str, list[tuple[str, str]]]) -> list[str]:
    return [*(room for room in ROOMS if room in names), *sorted(set(names) - set(ROOMS))]


def _doc_of(module: str, name: str) -> str:
    """The docstring of a name; of a constant, the string below it."""
    found = import_module(module)
    thing = getattr(found, name)
    if isinstance(thing, type) or callable(thing):
        return inspect.getdoc(thing) or ""
    body = ast.parse(inspect.getsource(found)).body
    for line, after in pairwise(body):
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        here = any(isinstance(x, ast.Name) and x.id == name for x in targets)
        if here and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return inspect.cleandoc(str(after.value.value))
    return ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split()).replace("``", "`")
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("|", "\\|").replace("<", "&lt;")


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` tells them."""
    import typer.main

    from bayes_grpo.cli.app import program

    group: Any = typer.main.get_command(program())
    lines = ["# Commands", "", "`uv run bayes-grpo COMMAND --help` prints the same.", ""]
    for name, command in sorted(group.commands.items()):
        lines += [f"## {name}", "", _plain(command.help or ""), ""]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join(["bayes-grpo", name, *(_metavar(p) for p in arguments), "[OPTIONS]"])
        lines += ["```sh", usage, "```", "", "| | what it is |", "|---|---|"]
        lines += [f"| `{_metavar(p)}` | {_plain(getattr(p, 'help', '') or '')} |" for p in arguments]
        for option in options:
            flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
            lines.append(f"| {flags} | {_plain(option.help or '')}{_default(option)} |")
        lines.append("")
    return "\n".join(lines)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper().rstrip(".") + (" …" if parameter.nargs == -1 else "")


def _default(option: Any) -> str:
    value = option.default
    shown = value is not None and value is not False and value != () and not callable(value)
    return f" Default: `{value}`." if shown and str(value) else ""


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def thumbnail(notebook: Path) -> bytes | None:
    """The first picture that a notebook shows; None where it shows none."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/png")
            if picture:
                return base64.b64decode("".join(picture))
    return None


def gallery_page(notebooks: list[Path], pictures: Path) -> str:
    """A card a notebook, with its first picture and its first two sentences."""
    lines = ["# Gallery", "", "Notebooks that the tests execute, shown with what they printed.", ""]
    lines += ["::::{grid} 1 1 2 2", ":gutter: 3", ""]
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title, _, rest = "".join(cells[0]["source"]).partition("\n")
        paragraph = re.sub(r"[\[\]`*]|\([^)]*\)", "", rest.strip().split("\n\n")[0])
        first = " ".join(re.split(r"(?<=\.)\s", re.sub(r"\s+", " ", paragraph))[:2])
        lines += [f":::{{grid-item-card}} {title.lstrip('# ')}", f":link: notebooks/{path.stem}", ":link-type: doc"]
        drawn = thumbnail(path)
        if drawn is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            (pictures / f"{path.stem}.png").write_bytes(drawn)
            lines.append(f":img-top: _gallery/{path.stem}.png")
        lines += ["", first, ":::", ""]
    lines += ["::::", "", "```{toctree}", ":hidden:", "", *(f"notebooks/{path.stem}" for path in notebooks), "```", ""]
    return "\n".join(lines)


def generate(app: Sphinx) -> None:
    """Writes the pages next to the others, where their text has changed."""
    docs = Path(app.srcdir)
    package = docs.parent / "bayes_grpo"
    names = public_names(package / "__init__.pyi")
    pages = {
        "reference/names.md": names_page(names),
        **{f"reference/api/{room}.md": room_page(room, some) for room, some in names.items()},
        "reference/commands.md": commands_page(),
        "gallery.md": gallery_page(sorted((docs.parent / "notebooks").glob("*.ipynb")), docs / "_gallery"),
    }
    for name, text in pages.items():
        path = docs / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            with atomic_write(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
    draw_all(docs / "_paper")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx to write the pages before it reads any."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
