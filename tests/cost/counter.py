"""Counters of what a program really does: of its kernels, and of single numbers."""

import math
import weakref

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnref.cost import Cost, Operations

aten = torch.ops.aten
PRODUCTS = {aten.mm, aten.bmm, aten.addmm, aten.baddbmm_}
ONE_A_RESULT = {
    *(aten.add, aten.add_, aten.sub, aten.sub_, aten.mul, aten.mul_, aten.div, aten.div_),
    *(aten.maximum, aten.relu, aten.reciprocal),
}
ONE_AN_ARGUMENT = {aten.sum, aten.amax, aten.cumsum}
EXPONENTIALS = {aten.exp, aten.exp_, aten.log}
# Of one kernel's memory traffic, but of several operations: PyTorch's own decomposition tells.
COMPOUND = {aten._softmax, aten._softmax_backward_data, aten.logsumexp}
NOT_OPERATIONS = {
    *(aten.empty, aten.full, aten.zeros, aten.zero_, aten.zeros_like, aten.ones),
    *(aten.scalar_tensor, aten.clone, aten.copy_, aten._to_copy, aten.to, aten.cat, aten.index),
    *(aten.where, aten.masked_fill, aten.masked_fill_, aten.abs, aten.neg, aten.isnan),
    *(aten.eq, aten.ne, aten.gt, aten.all, aten.any, aten.bitwise_and, aten.bitwise_or),
    *(aten.bitwise_not, aten.tril, aten.triu, aten.new_zeros, aten.ones_like, aten.clone),
    *(aten.stack, aten.constant_pad_nd, aten.full_like, aten.new_empty, aten.nan_to_num),
    aten.aminmax,  # a look at the values, to leave NaN and inf out where there are any
}
ONLY_WRITTEN = {aten.zero_, aten.copy_}  # their first argument is not read


class Counter(TorchDispatchMode):
    """Counts what every kernel does: arithmetic, bytes read and written, bytes alive.

    With ``arguments`` only main memory has traffic, which is these tensors and those made by
    ``torch.empty``; everything else stands for what a tile holds on the chip.
    """

    def __init__(self, *arguments):
        super().__init__()
        self.cost = Cost()
        self.live = 0
        self.main = {storage_id(tensor) for tensor in arguments}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        read = {id(tensor): tensor for tensor in tensors((args, kwargs))}
        made = tensors(result)
        owned = {storage_id(tensor) for tensor in read.values()}
        changes = func._schema.is_mutable
        if not changes and all(storage_id(tensor) in owned for tensor in made):
            return result  # a view, or no tensor
        kernel = func.overloadpacket
        self.allocate([tensor for tensor in made if storage_id(tensor) not in owned])
        if kernel is aten.empty:
            if self.main:
                self.main |= {storage_id(tensor) for tensor in made}
            return result
        if kernel in ONLY_WRITTEN:
            del read[id(args[0])]
        self.cost += Cost(
            self.operations(func, args, kwargs or {}, made),
            sum(map(self.traffic, read.values())),
            sum(map(self.traffic, made)),
        )
        return result

    def operations(self, func, args, kwargs, made):
        kernel, (out, *_) = func.overloadpacket, made
        if kernel in COMPOUND:
            with Counter() as parts:
                decomposition_table[func](*args, **kwargs)
            return parts.cost.operations
        if kernel is aten.sigmoid:
            with Counter() as parts:
                args[0].neg().exp().add(1.0).reciprocal()
            return parts.cost.operations
        if kernel in PRODUCTS:
            return Operations(matmul=2 * out.numel() * args[-2].shape[-1])
        if kernel is aten.linalg_solve_triangular:
            # Row i of each column: i products taken off, and a division unless the diagonal is 1.
            rows = out.shape[-2]
            divided = not kwargs.get("unitriangular", False)
            return Operations(matmul=out.numel() * (rows - 1), elementwise=out.numel() * divided)
        if kernel in ONE_A_RESULT:
            return Operations(elementwise=out.numel() * out.is_floating_point())
        if kernel in ONE_AN_ARGUMENT:
            return Operations(elementwise=args[0].numel() * out.is_floating_point())
        if kernel in EXPONENTIALS:
            return Operations(exponentials=out.numel())
        assert kernel in NOT_OPERATIONS, f"{func} has no rule of counting"
        return Operations()

    def traffic(self, tensor):
        if self.main and storage_id(tensor) not in self.main:
            return 0
        # A broadcast dimension has a stride of 0: the same number, read once.
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        return tensor.itemsize * math.prod(size for size, stride in sizes if stride)

    def allocate(self, made):
        for storage in {storage_id(tensor): tensor.untyped_storage() for tensor in made}.values():
            self.live += storage.nbytes()
            weakref.finalize(storage, self.free, storage.nbytes())
        self.cost += Cost(peak_bytes=self.live)

    def free(self, number):
        self.live -= number


def storage_id(tensor):
    return tensor.untyped_storage()._cdata


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Number:
    """A float that counts what is done with it: a second counter, which knows no kernels."""

    done = Operations()

    def __init__(self, value):
        self.value = value

    @classmethod
    def count(cls, value, **operation):
        cls.done += Operations(**operation)
        return cls(value)

    def __add__(self, other):
        return self.count(self.value + other.value, elementwise=1)

    def __sub__(self, other):
        return self.count(self.value - other.value, elementwise=1)

    def __mul__(self, other):
        return self.count(self.value * other.value, elementwise=1)

    def __truediv__(self, other):
        return self.count(self.value / other.value, elementwise=1)

    def maximum(self, other):
        return self.count(max(self.value, other.value), elementwise=1)

    def exp(self):
        return self.count(math.exp(self.value), exponentials=1)


def numbers(tensor):
    return [[Number(number) for number in row] for row in tensor.tolist()]
