"""Every operation, type and op of the PyTorch front end, in cases drawn by Hypothesis."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import horovod.torch as hvd
from horovod._session import SESSION


def combined(a: Any, b: Any) -> Any:
    """Each less half of what it has in common with the other."""
    both = (a * b).sum()
    return (1 - both / (2 * (a * a).sum() or 1)) * a + (1 - both / (2 * (b * b).sum() or 1)) * b


def adaptive_sum(level: Any, axis: int) -> Any:
    """Of a power of two of ranks' arrays, in pairs."""
    assert axis == 0
    while len(level) > 1:
        level = [combined(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


REDUCTIONS: dict[int, Callable[..., Any]] = {
    hvd.Average: np.mean,
    hvd.Sum: np.sum,
    hvd.Min: np.min,
    hvd.Max: np.max,
    hvd.Product: np.prod,
    hvd.Adasum: adaptive_sum,
}
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (*INTEGERS, *FLOATS, torch.bool)
KINDS = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter")
FORMS = ("blocking", "async", "in place", "async in place", "grouped", "grouped in place")
CASES_OF_A_KIND = 3
SETS: list[hvd.ProcessSet] = []


def sets() -> list[hvd.ProcessSet]:
    """All ranks; all but the first; the first and the last in the other order: added once."""
    if not SETS:
        last = hvd.size() - 1
        wanted = [list(range(1, last + 1)), *([[last, 0]] if last > 1 else [])]
        # The other files of this process add sets too.
        known = {tuple(there.ranks): there for there in SESSION.member.registered}
        SETS.extend(
            [
                hvd.global_process_set,
                *(
                    known.get(tuple(sorted(ranks))) or hvd.add_process_set(ranks)
                    for ranks in wanted
                ),
            ]
        )
    return SETS


def kinds() -> Iterator[tuple[str, torch.dtype, int]]:
    """Every operation with every type, and with every op that has a meaning for it."""
    for kind, dtype in itertools.product(KINDS, DTYPES):
        for op in REDUCTIONS if kind in ("allreduce", "reducescatter") else (hvd.Sum,):
            if op == hvd.Adasum and kind != "allreduce":
                continue
            if op not in (hvd.Average, hvd.Adasum) or dtype in FLOATS:
                yield kind, dtype, op


@st.composite
def plans(draw: Any) -> dict[str, Any]:
    shape = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3))
    if draw(st.integers(0, 9)) == 0:
        shape[0] = 40_000
    return {
        "form": draw(st.sampled_from(FORMS)),
        "shape": tuple(shape),
        "before": draw(st.sampled_from((1.0, 1.0, 0.5, 2.0))),
        "after": draw(st.sampled_from((1.0, 1.0, 4.0))),
        "transposed": draw(st.booleans()),
        "named": draw(st.booleans()),
        "set": draw(st.integers(0, 7)),
        "root": draw(st.integers(0, 7)),
        "seed": draw(st.integers(0, 2**16)),
    }


class Case:
    """One plan, as the ranks of its process set see it.

    Args:
        plan: the same on all of them.
        members: the process set.
    """

    def __init__(self, plan: dict[str, Any], members: hvd.ProcessSet) -> None:
        self.plan = plan
        self.ranks = members.ranks or list(range(hvd.size()))
        self.place = self.ranks.index(hvd.rank())
        self.rows = np.random.default_rng(plan["seed"]).integers(0, 4, 2 * [len(self.ranks)])
        self.options: dict[str, Any] = {"process_set": members}
        if plan["named"]:
            self.options["name"] = "drawn"
        self.factors = {
            "op": plan["op"],
            "prescale_factor": plan["before"],
            "postscale_factor": plan["after"],
        }
        self.inputs = [self._input(place) for place in range(len(self.ranks))]

    def _input(self, place: int) -> Any:
        """What a rank brings: few small whole numbers, exact in every type and order of adding."""
        shape = list(self.plan["shape"])
        if self.plan["kind"] == "allgather":
            shape[0] = int(self.rows[0][place])
        if self.plan["kind"] == "alltoall":
            shape[0] = int(self.rows[place].sum())
        low, high = (0, 2) if self.plan["dtype"] in (torch.uint8, torch.bool) else (-2, 3)
        return np.random.default_rng([self.plan["seed"], place]).integers(low, high, shape)

    def tensor(self) -> torch.Tensor:
        """This rank's, in memory of another order where the plan says so."""
        plain = torch.tensor(self.inputs[self.place]).to(self.plan["dtype"])
        return plain.t().contiguous().t() if self.plan["transposed"] and plain.dim() == 2 else plain

    def reduced(self) -> Any:
        inputs = [numbers * self.plan["before"] for numbers in self.inputs]
        result = REDUCTIONS[self.plan["op"]](inputs, axis=0) * self.plan["after"]
        return result != 0 if self.plan["dtype"] == torch.bool else result

    def expected(self) -> Any:
        kind, inputs = self.plan["kind"], self.inputs
        if kind == "allreduce":
            return self.reduced()
        if kind == "reducescatter":
            return np.array_split(self.reduced(), len(self.ranks))[self.place]
        if kind == "allgather":
            return np.concatenate(inputs)
        if kind == "broadcast":
            return inputs[self.plan["root"] % len(inputs)]
        cuts = [np.split(each, np.cumsum(self.rows[r])[:-1]) for r, each in enumerate(inputs)]
        return np.concatenate([cut[self.place] for cut in cuts])

    def run(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The result, and the tensor that should have been written where the form is in place."""
        kind, form, tensor = self.plan["kind"], self.plan["form"], self.tensor()
        arguments: list[Any] = []
        options = dict(self.options)
        if kind in ("allreduce", "reducescatter"):
            options |= self.factors
        if kind == "broadcast":
            arguments = [self.ranks[self.plan["root"] % len(self.ranks)]]
        if kind == "alltoall":
            arguments = [self.rows[self.place].tolist()]
        in_place = "in place" in form and kind in ("allreduce", "broadcast")
        if form.startswith("grouped") and kind not in ("broadcast", "alltoall"):
            call = getattr(hvd, f"grouped_{kind}" + ("_" if in_place else ""))
            result = call([tensor, tensor.clone()], **options)[0]
            return result, tensor if in_place else None
        waits = "async" not in form
        call = getattr(hvd, kind + ("" if waits else "_async") + ("_" if in_place else ""))
        result = call(tensor, *arguments, **options)
        if not waits:
            result = hvd.synchronize(result)
        if kind == "alltoall":
            result, counts = result
            assert counts.tolist() == self.rows[:, self.place].tolist(), self.plan
        return result, tensor if in_place else None


def try_one(plan: dict[str, Any]) -> None:
    members = sets()[plan["set"] % len(sets())]
    if hvd.rank() not in (members.ranks or range(hvd.size())):
        return
    case = Case(plan, members)
    in_pairs = len(case.ranks) & (len(case.ranks) - 1) == 0
    if plan["op"] == hvd.Adasum and not in_pairs:
        return
    result, written = case.run()
    expected = torch.as_tensor(case.expected())
    assert result.dtype == plan["dtype"], plan
    assert result.shape == expected.shape, plan
    expected = expected.to(plan["dtype"])
    if plan["op"] == hvd.Adasum:
        tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(plan["dtype"], 1e-5)
        torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    elif plan["op"] != hvd.Average or in_pairs:
        assert torch.equal(result, expected), plan
    else:  # means of three ranks are not exact
        torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)
    assert written is None or written is result, plan


def try_many(kind: str, dtype: torch.dtype, op: int) -> None:
    """The same cases on all ranks: drawn from a fixed seed, and none is shrunk."""

    @seed(20_261)
    @settings(
        max_examples=CASES_OF_A_KIND,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans())
    def run(plan: dict[str, Any]) -> None:
        factors = {} if dtype in FLOATS else {"before": 1.0, "after": 1.0}
        try_one({"kind": kind, "dtype": dtype, "op": op, **plan, **factors})

    run()


def check_any_operation_in_any_form() -> None:
    for kind, dtype, op in kinds():
        try_many(kind, dtype, op)
