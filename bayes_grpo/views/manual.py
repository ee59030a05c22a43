"""Addresses that a page may link to."""

from __future__ import annotations

from bayes_grpo.common.errors import SettingError


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
