"""How far the gradients of a step have come: counted, sent, arrived."""

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from horovod.torch.compression import Outgoing
from horovod.torch.gradient_memory import Memory
from horovod.torch.handles import poll, synchronize

Parameter = torch.Tensor

_LOOK = 0.0005  # seconds

# By the ids of parameters, those that optimizers follow: each optimizer has its own.
_SIBLINGS: "weakref.WeakValueDictionary[int, weakref.WeakSet[Gradient]]" = (
    weakref.WeakValueDictionary()
)
_LISTING = threading.RLock()  # of these: a script may make optimizers in several threads


@dataclass(slots=True)
class InFlight:
    """A gradient on its way; of a sparse one, or one of a group, the handle waits for it.

    Attributes:
        group: those that it travels with.
        own: the parameter's gradient when it was sent, until the result lands.
        version: how often that had been changed then, until it is looked at whether it has been
            since; None also where others may change it.
        arrived: what has come, until it has been put into place.
        landed: whether it has been; the next step forgets all of this.
    """

    handle: int | Callable[[], torch.Tensor | None]
    sent: Outgoing
    group: "GradientGroup | None" = None
    own: torch.Tensor | None = None
    version: int | None = None
    arrived: torch.Tensor | None = None
    landed: bool = False

    @property
    def started(self) -> bool:
        """Whether it has been sent, and not only noted that it will be."""
        return self.group is None or self.group.handle is not None

    def wait(self, seconds: float) -> None:
        """Waits until the operation is done, if it has been started, or the time has passed."""
        handle = self.handle if self.group is None else self.group.handle
        end = time.monotonic() + seconds
        while isinstance(handle, int) and not poll(handle) and time.monotonic() < end:
            time.sleep(_LOOK)


class Gradient:
    """A parameter's gradient, and how far it has come.

    Hooks of autograd run between the steps of the backward pass, so that what they need is here
    and not looked up by the parameter, whose hash is a call of Python code.

    Args:
        parameter: whose gradient it is.
        name: under which it is reduced.
        group: the parameters whose gradients travel with it; None when it travels alone.

    Attributes:
        seen: number of backward passes that have added to it.
        complete: whether it waits for others of its group.
        own: what the parameter's gradient is then; something else may be put in its place.
        stream: of the GPU, on which it was made then.
        memory: who has its memory besides.
        flight: what is known from when it has been sent until the step.
    """

    __slots__ = (
        "__weakref__",
        "_siblings",
        "complete",
        "flight",
        "group",
        "memory",
        "name",
        "own",
        "parameter",
        "seen",
        "stream",
    )

    def __init__(self, parameter: Parameter, name: str, group: Sequence[Parameter] | None) -> None:
        self.parameter = parameter
        self.name = name
        self.group = group
        self.seen = 0
        self.complete = False
        self.own: torch.Tensor | None = None
        self.memory = Memory.OWN
        self.stream: torch.cuda.Stream | None = None
        self.flight: InFlight | None = None
        with _LISTING:
            self._siblings = _SIBLINGS.setdefault(id(parameter), weakref.WeakSet())
            self._siblings.add(self)

    def flight_elsewhere(self) -> InFlight | None:
        """What another optimizer has sent of the same parameter's gradient, until it lands."""
        if len(self._siblings) == 1:
            return None
        with _LISTING:
            siblings = list(self._siblings)
        flights = (each.flight for each in siblings if each is not self)
        return next((each for each in flights if each is not None and not each.landed), None)


class GradientGroup:
    """Gradients that travel together, and arrive when the first of them is asked for.

    Attributes:
        handle: of the grouped operation; None until it has been started. Its members are noted
            before: a signal's handler may raise at any point, and none may be sent twice.
    """

    def __init__(self) -> None:
        self.handle: int | None = None
        self._results: Sequence[torch.Tensor] | None = None

    def result(self, position: int) -> torch.Tensor | None:
        """The gradient at a position of the group; None if it is lost."""
        if self._results is None and self.handle is not None:
            self._results = synchronize(self.handle)
        return None if self._results is None else self._results[position]
