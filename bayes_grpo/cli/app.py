"""The command line: parse, call one public function, print.

Exit codes: 0 success; 2 wrong usage; 3 bad input, setting or place to write; 4 the sampler did not converge (the
result is printed and written all the same, and says so); 5 a failure is as probable as ``diagnose --fail-on`` asks, or
was found by ``watch --until-alarm`` (the result is printed all the same); 130 interrupted, 143 terminated
(`bayes_grpo.cli.signals`). ``--json`` writes to standard output and nothing else does; progress and errors go to
standard error.
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from bayes_grpo.cli.options import EXIT_INPUT, QUIET
from bayes_grpo.cli.signals import ended_by_signals
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.text import plain

HELP_FLAGS = {"help_option_names": ["-h", "--help"]}
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress; results and errors all the same.", rich_help_panel="Output"),
]

_SEVERAL = ("--a", "--b")


class Command(TyperCommand):
    """A command whose help names no type for a flag without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its arguments and flags."""
        return _without_types(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """The program itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its flags."""
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command.

    A parameter whose type is a dataclass is a group of flags: its fields become flags of the command, which gets the
    dataclass.

    Args:
        examples: Calls that work, without the program's name; they end the command's help.
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
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

    return made


def _flag(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def each_by_itself(words: Sequence[str]) -> list[str]:
    """Arguments with ``--a LOG LOG`` written as ``--a LOG --a LOG``, which is all that the parser takes."""
    if words[:1] != ["compare-runs"]:
        return list(words)
    out: list[str] = []
    flag, taken = "", 0
    for word in words:
        if word.startswith("-"):
            flag, taken = (word if word in _SEVERAL else ""), 0
        elif flag:
            out += [flag] if taken else []
            taken += 1
        out.append(word)
    return out


COMMANDS = (
    "report", "inspect", "fit", "compare", "forecast", "diagnose", "watch", "sweep", "compare-runs", "batch", "plan",
    "stability", "rollouts", "simulate", "mcp",
)  # fmt: skip
"""Each is a function in a module of its name."""


def program(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; only their modules are imported."""
    app = typer.Typer(
        cls=CommandGroup,
        context_settings=HELP_FLAGS,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.",
        epilog="Exit codes: 0 success, 2 wrong usage, 3 bad input, 4 no convergence, 5 failure found "
        "(diagnose --fail-on, watch --until-alarm), 130 interrupted, 143 terminated.",
    )
    for name in names:
        module = name.replace("-", "_")
        made = getattr(import_module(f"bayes_grpo.cli.{module}"), module)
        examples = "".join(f"\n\nbayes-grpo {words}" for words in vars(made)["examples"])
        app.command(name, cls=Command, context_settings=HELP_FLAGS, epilog=f"Examples:{examples}")(made)
    app.callback()(_everywhere)
    return app


def _version(given: bool) -> None:
    if given:
        typer.echo(version("bayes-grpo"))
        raise typer.Exit


def _everywhere(
    version_: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Flags of the program itself; its help is the app's."""


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"bayes-grpo: {message}\n")
    raise SystemExit(code)


def main() -> None:
    """All commands; every error that a user can mend is one line on standard error."""
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # the summary says the same, in its place
    # A cache of programs that is damaged or full costs the time to compile, and nothing else.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    with ended_by_signals():
        try:
            output = sys.stdout  # typer replaces it where the reader is gone
            try:
                words = sys.argv[1:]
                app = program(words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS)
                app(each_by_itself(words))
            finally:
                gone, sys.stdout = sys.stdout is not output, output
                output.flush()
                if gone:
                    raise BrokenPipeError
        except BayesGrpoError as error:
            _fail(plain(error, 2000), EXIT_INPUT)
        except BrokenPipeError:  # the reader closed the pipe
            _let_go_of_output()
            raise SystemExit(0) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _let_go_of_output()
            _fail(f"standard output: cannot write there ({error.strerror}); free some room", EXIT_INPUT)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def _let_go_of_output() -> None:
    """Sends what is still to be written nowhere, so that the end of the interpreter does not stumble over it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
