"""A run that W&B keeps on its servers, ``wandb://entity/project/run``, by the user's own client and account."""

from __future__ import annotations

from pathlib import Path

from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.common.wording import clean
from bayes_grpo.logs.parsed import Parsed
from bayes_grpo.logs.tabular import of_tracker

NAME = "wandb_client"
_SCHEME = "wandb:"


def address_of(path: Path) -> str | None:
    """``entity/project/run`` where a path is the address of a run; None where it is a path.

    Raises:
        LogReadError: It is an address of something else.
    """
    if path.parts[:1] != (_SCHEME,):  # a Path has made one slash of the two
        return None
    parts = [part for part in path.parts[1:] if part != "runs"]  # as in the address of the web page
    if len(parts) not in (2, 3):
        raise LogReadError(
            f"{clean(path, 200)}: expected wandb://entity/project/run, found {len(parts)} parts; "
            f"copy the run's path from its overview"
        )
    return "/".join(parts)


def read_from_client(address: str) -> Parsed:
    """All rows of a run, its name and its configuration.

    Args:
        address: ``entity/project/run``, or ``project/run`` under the user's own entity.

    Raises:
        MissingExtraError: The client is not installed.
        LogReadError: The client does not get the run.
    """
    try:
        import wandb
    except ImportError:
        raise MissingExtraError(
            "reading wandb:// needs W&B's client, which is not installed; install the package wandb and log in"
        ) from None
    try:
        return of_tracker(wandb.Api(timeout=60).run(address))
    except LogReadError:
        raise
    except Exception as error:  # whatever client, network or account raise
        raise LogReadError(
            f"wandb://{clean(address, 200)}: expected a run that your account may read, found "
            f"{clean(f'{type(error).__name__}: {error}', 300)}; check the path and log in"
        ) from None
