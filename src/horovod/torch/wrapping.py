"""Deriving an optimizer's class at run time, so that the wrapped one is still an instance of it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from horovod.torch.copies import Uncopied, copying_of

Step = TypeVar("Step", bound=Callable[..., Any])

# That of `DistributedOptimizer`: by it Horovod, and scripts, know a wrapped optimizer.
_MODULE = "horovod.torch.optimizer"


def leaving_hooks_to_the_wrapped(step: Step) -> Step:
    """Keeps PyTorch, which looks for this mark, from running step hooks around this step too."""
    step.__dict__["hooked"] = True
    return step


def leave_uncompiled(method: Step) -> Step:
    """Keeps `torch.compile`, which may be given a whole training step, from compiling a method.

    Not by `torch.compiler.disable`, which imports the compiler at once; optimizers of PyTorch's do
    it this way. Where PyTorch has no such function, nothing is changed.
    """
    disabling: Callable[[Step], Step] | None = getattr(torch, "_disable_dynamo", None)
    return method if disabling is None else disabling(method)


def derive(
    optimizer: torch.optim.Optimizer, methods: type[torch.optim.Optimizer], **attributes: Any
) -> Any:
    """Makes an optimizer that shares state, options and parameters with the one that is passed.

    Its class has the user's as its one base, and the methods in itself: in Horovod, and in scripts
    that were written for it, `super(type(wrapped), wrapped).step()` is a step of the user's alone.

    Args:
        optimizer: the user's.
        methods: the class whose methods, and those of its bases, stand before the user's. In them
            `self._wrapped` is the user's class.
        attributes: that the result has besides.
    """
    kind = type(optimizer)
    namespace: dict[str, Any] = {}
    for each in reversed(methods.__mro__):
        if not issubclass(kind, each):
            namespace |= {name: own for name, own in vars(each).items() if name[:2] != "__"}
    namespace |= {"__module__": _MODULE, "_wrapped": kind}
    own = (name for name in ("_passed", *attributes) if name[:1] == "_")
    namespace |= {name: Uncopied() for name in own if not hasattr(kind, name)}
    namespace |= copying_of(kind)
    derived: Any = object.__new__(type(kind.__name__, (kind,), namespace))
    derived.__dict__.update(optimizer.__dict__)
    derived.__dict__.pop("step", None)  # a learning-rate scheduler's wrapper around the original's
    derived.__dict__.update(attributes)
    derived.__dict__["_passed"] = optimizer
    return derived


def is_derived(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer is one that `derive` has made."""
    return isinstance(getattr(type(optimizer), "_wrapped", None), type)


def load_sharing(derived: Any, *args: Any, **kwargs: Any) -> None:
    """Loads a state as the user's class does, for the optimizer that was passed to `derive` too.

    `load_state_dict` puts new groups into an optimizer, and a new state. Learning-rate schedulers
    that were made before the optimizer was wrapped move the rates of the one that was passed.
    """
    try:
        derived._wrapped.load_state_dict(derived, *args, **kwargs)  # noqa: SLF001 - `derive` has set it
    finally:
        loaded, passed = vars(derived), vars(derived._passed)  # noqa: SLF001 - as above
        # Of some classes they are properties, whose values are shared as they are.
        passed.update({name: loaded[name] for name in ("param_groups", "state") if name in loaded})


@leave_uncompiled
def note_step(derived: Any) -> None:
    """Notes for learning-rate schedulers of the optimizer that was passed that there is a step.

    A scheduler puts a function around its optimizer's `step`, which notes that it was called: in a
    count before PyTorch 2.4. Without it the scheduler warns of rates that have been skipped.
    """
    passed = vars(derived._passed)  # noqa: SLF001 - `derive` has set it
    if "step" in passed:
        passed["_opt_called"] = True
        if "_step_count" in passed:
            passed["_step_count"] += 1


def load_as_wrapped(optimizer: torch.optim.Optimizer, state_dict: Any) -> None:
    """Gives an optimizer a state; one that `derive` has made as the user's class would."""
    if is_derived(optimizer):
        wrapped: type[torch.optim.Optimizer] = getattr(type(optimizer), "_wrapped")  # noqa: B009 - as below
        wrapped.load_state_dict(optimizer, state_dict)
    else:
        optimizer.load_state_dict(state_dict)


@contextlib.contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Makes gradients that are made within a step under `torch.inference_mode` ordinary tensors."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


def forget_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Has an optimizer that `derive` has made wait for what is on its way, and forget the rest."""
    if is_derived(optimizer):
        getattr(optimizer, "_forget_gradients")()  # noqa: B009 - of a class made at run time


def require_passes(passes: int) -> None:
    """Refuses a number of backward passes that makes no step.

    Raises:
        ValueError: with Horovod's text.
    """
    if passes <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
