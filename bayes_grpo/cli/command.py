"""`command` makes a function a command: groups of flags are dataclasses, and examples end its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from bayes_grpo.cli.printing import QUIET

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress; results and errors all the same.", rich_help_panel="Output"),
]


def command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command whose help ends with examples, calls without the program's name.

    A parameter whose type is a dataclass is a group of flags: its fields become flags of the command, which gets the
    dataclass.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups = {name: hint for name, hint in hints.items() if inspect.isclass(hint) and is_dataclass(hint)}
        flags: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name not in groups:
                flags.append(_flag(parameter.name, hints[parameter.name], parameter.default))
                continue
            own = get_type_hints(groups[parameter.name], include_extras=True)
            flags += [_flag(f.name, own[f.name], f.default) for f in fields(groups[parameter.name])]
        flags.append(_flag("quiet", Quiet, default=False))

        def run(*, quiet: bool = False, **given: Any) -> None:
            QUIET.set(quiet)
            for name, group in groups.items():
                given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
            function(**given)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__annotations__ = {p.name: p.annotation for p in flags}
        vars(run)["__signature__"] = inspect.Signature(flags)
        vars(run)["examples"] = examples
        return run

    return decorate


def _flag(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
