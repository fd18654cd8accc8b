"""What an operation may be called."""


def checked_name(name: str) -> str:
    """A name that the core can take, which ends at a zero byte.

    Raises:
        ValueError: it holds one, or what UTF-8 has no bytes for.
    """
    try:
        encoded = str(name).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name {name!r} cannot be written in UTF-8: {error.reason}") from None
    if 0 in encoded:
        raise ValueError(f"the name {name!r} holds a zero byte, at which names end here")
    return name
