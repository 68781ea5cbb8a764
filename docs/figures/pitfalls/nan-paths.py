"""Where a NaN ends up: from a row without keys, and from a value behind the mask."""

import torch
from torch.nn import functional as F

from docs.figures.drawing import SECOND, SMALL, canvas, new_figure
from docs.figures.matrices import Fill, product

TEXT = {
    "pt": {
        "row": "1. Uma consulta sem chaves: uma linha",
        "value": "2. Um valor NaN, proibido a todas: todas as linhas",
        "legend": "Cheio: NaN. Em 2, todos os pesos da última chave são 0.",
    },
    "en": {
        "row": "1. A query without keys: one row",
        "value": "2. A NaN value, forbidden to all: every row",
        "legend": "Filled: NaN. In 2 all weights of the last key are 0.",
    },
}

N, M, D = 4, 5, 3


def nan_cells(tensor):
    places = tensor.isnan().nonzero().tolist()
    return [Fill(slice(i, i + 1), slice(j, j + 1), 0.6, SECOND) for i, j in places]


def draw(text):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(N, D, generator=generator)
    key, value = torch.randn(2, M, D, generator=generator)
    empty = torch.ones(N, M, dtype=torch.bool)
    empty[1] = False
    hidden, spoilt = torch.ones(N, M, dtype=torch.bool), value.clone()
    hidden[:, -1], spoilt[-1, 0] = False, torch.nan

    figure = new_figure(336)
    plane = canvas(figure)
    for top, title, may, values in ((14, "row", empty, value), (162, "value", hidden, spoilt)):
        scores = (query @ key.mT / D**0.5).masked_fill(~may, -torch.inf)
        weights = torch.softmax(scores, -1)
        output = weights @ values
        theirs = F.scaled_dot_product_attention(query, key, values, may)
        if title == "value":  # where a row has keys, PyTorch's own function does the same
            assert torch.equal(theirs.isnan(), output.isnan())
            assert (weights[:, -1] == 0).all()
        plane.text(8, top, text[title], va="center", fontweight="semibold")
        factors = (("$P$", weights), ("$V$", values), ("$O$", output))
        named = [(name, tensor, *nan_cells(tensor)) for name, tensor in factors]
        product(plane, 60, top + 76, *named, cell=16)
    plane.text(8, 318, text["legend"], va="center", fontsize=SMALL)
    return figure
