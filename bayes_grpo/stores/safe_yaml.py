"""The settings in a YAML file as plain values; a file that is broken, or made to do harm, states none."""

from __future__ import annotations

from typing import Any

import yaml

_MAX_CHARACTERS = 200_000


class _Loader(yaml.SafeLoader):
    """Builds plain values, and none of them twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node that is written out; a reference to another one could hold itself, or grow without bound."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a reference")
        return super().compose_node(parent, index)


def settings_in(text: str) -> dict[str, Any]:
    """The mapping in a text; empty where there is none."""
    if len(text) > _MAX_CHARACTERS:
        return {}
    try:
        found = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}
