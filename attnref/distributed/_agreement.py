"""All ranks learn whether they called the same thing, and how much each of them holds.

Without it, ranks that disagree would wait for messages that never come, or read each other's
numbers as something else. A call costs 24 bytes to each other rank, and 8 more with a mask; only
ranks that do differ go on to tell each other how.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import forward_ad
from torch.distributed import ProcessGroup

from attnref.distributed._ranks import Ranks

_ROOM = 4096  # bytes of a statement
_CHARACTERS = 512  # of an error in it, each of which may take six bytes
_calls: WeakKeyDictionary[ProcessGroup, int] = WeakKeyDictionary()

T = TypeVar("T")


class Terms(NamedTuple):
    """What a rank brings to a call: what must be the same on all, and two numbers of its own."""

    same: dict[str, Any]
    own: tuple[int, int] = (0, 0)


def agree(check: Callable[[], tuple[T, Terms]], *groups: Ranks) -> tuple[T, list[tuple[int, int]]]:
    """What ``check`` finds here, and the numbers that each rank has for itself.

    Of several groups, the dimensions of a mesh, the last one is the fastest. What ``check`` raises
    on one rank is raised on all of them: here as it is, elsewhere with the rank that refused.
    """
    ranks = groups[0]
    refusal = None
    try:
        found, terms = check()
    except (TypeError, ValueError, RuntimeError) as error:
        refusal, terms = error, Terms({"refused": str(error)[:_CHARACTERS]})
    statement = {"function": ranks.function, **terms.same}
    text = json.dumps(statement).encode()
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
    told = gather_calls(torch.tensor([digest, *terms.own], device="cpu"), groups)  # (ranks, 3)
    if (told[:, 0] == digest).all() and refusal is None:
        return found, [(a, b) for a, b in told[:, 1:].tolist()]
    said = {"rank": dist.get_rank(), **statement}
    letter = json.dumps(said).encode().ljust(_ROOM)
    letters = gather_calls(torch.tensor(list(letter), dtype=torch.uint8, device="cpu"), groups)
    if refusal is not None:
        raise refusal
    raise ValueError(_difference(ranks.function, [json.loads(bytes(x.tolist())) for x in letters]))


def number_of_call(ranks: Ranks) -> int:
    """How many calls with a backward pass this group has made, this one included."""
    number = _calls[ranks.group] = _calls.get(ranks.group, 0) + 1
    return number


def agree_backward(ranks: Ranks, number: int) -> None:
    """All of them are in the backward pass of the same call, and none wants its derivative."""

    def check() -> tuple[None, Terms]:
        check_first_derivative(ranks.function)
        return None, Terms({"backward pass of its call number": number})

    agree(check, ranks)


def check_first_derivative(function: str) -> None:
    """Autograd records a backward pass only to derive it; its messages cannot be recorded."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"{function}: expected a backward pass without create_graph=True, got one whose "
            "gradients are to have derivatives. A gradient penalty would be lost: compute it on "
            "one device, with attnref.blockwise_attention of the whole sequence."
        )


def check_untransformed(**tensors: Tensor) -> None:
    """What is sent to other ranks are numbers, not what a transform has put around them."""
    given = {name: x for name, x in tensors.items() if isinstance(x, Tensor)}
    for name, tensor in given.items():  # others are refused elsewhere
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        if wrapped or forward_ad.unpack_dual(tensor).tangent is not None:  # type: ignore[no-untyped-call]
            raise TypeError(
                f"{name}: expected a tensor outside of torch.func, got one inside "
                f"{'vmap, grad, jvp or another transform' if wrapped else 'forward mode'}. "
                "Messages between ranks have gradients by backward() alone: call that, or "
                "transform attnref.blockwise_attention of the whole sequence on one device."
            )


def share(row: Sequence[bool], ranks: Ranks) -> list[list[bool]]:
    """The rows of all ranks."""
    rows: list[list[bool]] = gather_calls(torch.tensor(row, device="cpu"), [ranks]).tolist()
    return rows


def gather_calls(mine: Tensor, groups: Sequence[Ranks]) -> Tensor:
    """What each rank says, ``(ranks, ...)``, in the order of a mesh."""
    told = mine[None]
    for ranks in reversed(groups):
        with ranks.describe_failure("compared its call with those of the others"):
            nccl = dist.get_backend(ranks.group) == "nccl"
            told = told.cuda() if nccl else told
            others = [torch.empty_like(told) for _ in range(ranks.size)]
            dist.all_gather(others, told, group=ranks.group)
            told = torch.cat(others).cpu()
    return told


def _difference(function: str, said: list[dict[str, Any]]) -> str:
    """Which rank differs in what, the first thing in which some do."""
    for one in said:
        if "refused" in one:
            return (
                f"{function}: rank {one['rank']} refused its arguments, and the others cannot go "
                f"on without it. It says: {one['refused']}"
            )
    names = dict.fromkeys(name for one in said for name in one if name != "rank")
    for name in names:
        values = [json.dumps(one.get(name)) for one in said]
        (usual, count), *others = Counter(values).most_common()
        if others:
            differing = [
                f"{value} on rank {one['rank']}"
                for one, value in zip(said, values, strict=True)
                if value != usual
            ]
            break
    return (
        f"{function}: expected the same {name} on all ranks, got {', '.join(differing)} and "
        f"{usual} on the other{'' if count == 1 else f' {count}'}. All ranks call the same "
        "functions in the same order, with tensors that differ in their length alone."
    )
