"""What an operation may be called."""

_MOST_SHOWN = 100  # characters of a name in an error


def checked_name(name: str) -> str:
    """A name that the core can take, which ends at a zero byte.

    Raises:
        ValueError: it holds one, or what UTF-8 has no bytes for.
    """
    text = str(name)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the name {_shown(text)} cannot be written in UTF-8: {error.reason}"
        ) from None
    if 0 in encoded:
        raise ValueError(f"the name {_shown(text)} holds a zero byte, at which names end here")
    return name


def _shown(name: str) -> str:
    """A name for an error, which may have any length."""
    if len(name) <= _MOST_SHOWN:
        return repr(name)
    return f"{name[:_MOST_SHOWN]!r}... of {len(name)} characters"
