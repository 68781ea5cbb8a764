"""The context vector of one word, in the four steps of the book."""

import torch
from torch import Tensor


def context_vector(inputs: Tensor, position: int) -> Tensor:
    query = inputs[position]  # (d,)
    scores = inputs @ query  # (n,), one a word, the asking one included
    weights = torch.softmax(scores, dim=-1)  # (n,)
    return weights @ inputs  # (d,), the average of the rows
