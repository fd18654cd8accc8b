"""What modules of hooks need of `typing` when they run, without importing it.

Its import takes as long as compiling 250 lines, in every process of an installation.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, NamedTuple, TypeVar, cast
else:
    from collections import namedtuple

    class Generic:
        """A base class of classes that only type checkers take for generic."""

        def __class_getitem__(cls, _: object) -> type:
            """Return the class itself."""
            return cls

    def TypeVar(_: str) -> object:  # noqa: N802 - its name in `typing`
        """Return a stand-in for a type variable; nothing reads it."""
        return object()

    def cast(_: object, value: object) -> object:
        """Return the value."""
        return value

    class _NamedTupleMeta(type):
        def __new__(
            cls, name: str, bases: tuple[type, ...], members: dict[str, object]
        ) -> type[tuple[object, ...]]:
            """Return a tuple with the annotated fields, and with the properties and methods."""
            if not bases:
                return super().__new__(cls, name, bases, members)
            fields = tuple(members["__annotations__"])
            defaults = [members.pop(field) for field in fields if field in members]
            module = str(members["__module__"])
            made = namedtuple(name, fields, defaults=defaults, module=module)  # noqa: PYI024
            for key, member in members.items():
                if key not in ("__module__", "__annotations__"):
                    setattr(made, key, member)
            return made

    class NamedTuple(metaclass=_NamedTupleMeta):
        """A base class whose annotated fields make a tuple with names."""


__all__ = ["Generic", "NamedTuple", "TypeVar", "cast"]
