"""Licences of what the package needs, from the metadata of what is installed: `python .ci/licences.py`."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

ROOT = "bayes-grpo"


def licence_of(found: Distribution) -> str:
    """What a package says of its licence: the expression, else the classifiers, else the first line of the text."""
    about = found.metadata
    stated = about.get("License-Expression")
    if stated:
        return stated
    named = [c.rsplit(" :: ", 1)[-1] for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    text = (about.get("License") or "").strip().splitlines()
    return ", ".join(named) or (text[0][:60] if text else "not stated")


def needed(root: str = ROOT) -> dict[str, str]:
    """Package and version → licence, of a package and all that it needs without extras."""
    waiting, seen, found = [root], set(), {}
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            package = distribution(name)
        except PackageNotFoundError:  # for another system or Python
            continue
        found[f"{package.metadata['Name']} {package.version}"] = licence_of(package)
        for line in package.requires or ():
            if "extra ==" not in line and (name := re.match(r"[A-Za-z0-9._-]+", line)) is not None:
                waiting.append(name[0])
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


if __name__ == "__main__":
    for package, licence in needed().items():
        print(f"{package:32} {licence}")
