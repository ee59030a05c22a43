"""Where the documentation says more about a section of a page."""

from __future__ import annotations

from collections.abc import Mapping

from bayes_grpo.common.errors import SettingError

MANUAL: Mapping[str, str] = {
    "logged": "how/log",
    "fit": "how/fit",
    "laws": "how/compare",
    "check": "how/compare",
    "forecast": "how/forecast",
    "diagnosis": "how/diagnose",
    "stability": "how/plan",
    "curves": "how/report",
    "better": "how/family",
    "data-order": "how/siblings",
    "effects": "how/family",
    "forecasts": "how/forecast",
    "quantities": "quantities",
    "diagnoses": "how/diagnose",
    "settings": "how/log",
    "words": "quantities",
}
"""Section → page of the documentation."""


def docs_base(address: str) -> str:
    """The address under which the documentation was built, ending in a slash; "" for none.

    Args:
        address: Where the built documentation lies, such as ``https://…`` or ``file:///…``.

    Raises:
        SettingError: Another kind of address, which a page must not link to.
    """
    if not address:
        return ""
    if not address.startswith(("https://", "http://", "file:///")) or any(c in address for c in " \"'<>"):
        raise SettingError(
            f"--docs: expected an address that begins with https://, http:// or file:///, found {address!r}"
        )
    return address.rstrip("/") + "/"
