"""The pages of the documentation, and the code on them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bayes_grpo"
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "notebooks" / "data" / "softmax_policy_grpo.json"
GENERATED = ("gallery", "reference/commands", "reference/names")
"""Pages that are made from the code when the documentation is built, without a suffix."""


def named(path: Path) -> str:
    """A page's name as a table of contents has it."""
    return path.relative_to(DOCS).with_suffix("").as_posix()


def written_pages() -> list[Path]:
    """The pages that somebody wrote."""
    pages = (p for p in DOCS.rglob("*.md") if not {"_build", "notebooks"} & set(p.relative_to(DOCS).parts))
    return sorted(p for p in pages if named(p) not in GENERATED and p.parent.name != "api")


def blocks(path: Path, kind: str) -> list[str]:
    """Code blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    """Calls of the program on a page, as lists of arguments."""
    lines = [shlex.split(line, comments=True) for block in blocks(path, "sh") for line in block.splitlines()]
    return [words[words.index("bayes-grpo") + 1 :] for words in lines if "bayes-grpo" in words]
