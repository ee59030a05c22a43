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
    "signals": "how/log",
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
    address = checked_address("--docs", address)
    return f"{address.rstrip('/')}/" if address else ""


def checked_address(flag: str, address: str) -> str:
    """An address that a page may link to; "" for none.

    Raises:
        SettingError: Another kind of address.
    """
    known = address.startswith(("https://", "http://", "file:///")) and not any(c in address for c in " \"'<>")
    if address and not known:
        raise SettingError(
            f"{flag}: expected an address that begins with https://, http:// or file:///, found {address!r}"
        )
    return address
