"""Immutable records: what `dataclass(frozen=True)` gives, without its time at import.

The standard decorator writes the source of every method and compiles it, after importing `inspect`.
That was a third of the time of a build hook. The methods here are the same for all classes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn, TypeVar

    from typing_extensions import dataclass_transform

    _T = TypeVar("_T")
else:

    def dataclass_transform(**_: object) -> object:
        """Stand in for what type checkers know by this name."""
        return lambda decorated: decorated


class _Field:
    """How a field is treated that needs more than a plain default."""

    def __init__(
        self, default: object, factory: Callable[[], object] | None, *, init: bool, shown: bool
    ) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.shown = shown


_MISSING = object()


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the name that `dataclasses.field` has for it
) -> Any:
    """Declare a field of a record.

    Args:
        default: Its value where none is given.
        default_factory: Makes its value where none is given, anew for each record.
        init: Whether it is given to the constructor. Otherwise `__post_init__` computes it from
            the others, and it is neither compared nor shown.
        repr: Whether `repr` shows it.
    """
    return _Field(default, default_factory, init=init, shown=repr)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Make a class with annotated fields an immutable record, compared and hashed by value.

    `__post_init__` is called when the fields are set, and may change them with
    `object.__setattr__`. Nothing is inherited from other records.
    """
    declared = vars(cls)
    names: list[str] = []
    shown: list[str] = []
    defaults: dict[str, object] = {}
    factories: dict[str, Callable[[], object]] = {}
    for name in cls.__annotations__:
        default = declared.get(name, _MISSING)
        if not isinstance(default, _Field):
            default = _Field(default, None, init=True, shown=True)
        else:
            delattr(cls, name)
        if default.default is not _MISSING:
            defaults[name] = default.default
        if default.factory is not None:
            factories[name] = default.factory
        if default.init:
            names.append(name)
            shown += [name] if default.shown else []
    fields = tuple(names)
    count, known = len(fields), frozenset(names)
    post_init = declared.get("__post_init__")

    def init(self: object, *args: object, **kwargs: object) -> None:
        values = self.__dict__
        if len(args) == count and not kwargs:
            values.update(zip(fields, args))  # noqa: B905 - as long as each other
        else:
            values.update(defaults)
            values.update(zip(fields, args))  # noqa: B905 - the rest is named, or has defaults
            values.update(kwargs)
            named_twice = args and not kwargs.keys().isdisjoint(fields[: len(args)])
            if values.keys() != known or len(args) > count or named_twice:
                _complete(cls, fields, values, args, kwargs, factories)
        if post_init is not None:
            post_init(self)

    def equal(self: object, other: object) -> object:
        if other.__class__ is not self.__class__:
            return NotImplemented
        mine, others = self.__dict__, other.__dict__
        return all(mine[name] == others[name] for name in fields)

    def hashed(self: object) -> int:
        values = self.__dict__
        return hash(tuple([values[name] for name in fields]))

    def represented(self: object) -> str:
        words = ", ".join(f"{name}={self.__dict__[name]!r}" for name in shown)
        return f"{cls.__qualname__}({words})"

    methods: dict[str, object] = {
        "__init__": init,
        "__eq__": equal,
        "__hash__": hashed,
        "__repr__": represented,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__match_args__": fields,
        "_fields": fields,
    }
    for name, method in methods.items():
        if name not in declared or name in _ALWAYS:
            setattr(cls, name, method)
    return cls


def replace(instance: _T, **changes: object) -> _T:
    """Return a record that differs in some fields."""
    fields: tuple[str, ...] = instance._fields  # type: ignore[attr-defined]  # of every record
    return type(instance)(**{**{name: getattr(instance, name) for name in fields}, **changes})


_ALWAYS = frozenset({"__hash__"})
"""Python gives a class that defines `__eq__` alone no hash."""


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be changed")


def _complete(
    cls: type,
    fields: tuple[str, ...],
    values: dict[str, object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    factories: Mapping[str, Callable[[], object]],
) -> None:
    """Add what factories make, and refuse arguments that are too many, unknown or missing."""
    name = cls.__name__
    if len(args) > len(fields):
        raise TypeError(f"{name} has {len(fields)} fields, {len(args)} were given")
    for key in kwargs:
        if key not in fields:
            raise TypeError(f"{name} has no field {key!r}")
        if key in fields[: len(args)]:
            raise TypeError(f"field {key!r} of {name} is given twice")
    for key in fields:
        if key not in values:
            if key not in factories:
                raise TypeError(f"field {key!r} of {name} is missing")
            values[key] = factories[key]()
