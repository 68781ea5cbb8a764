"""One head of the first program: five queries, seven keys and values, and their shapes."""

import torch

import attnref
from docs.figures.drawing import STRONGEST, canvas, new_figure
from docs.figures.matrices import WHOLE, Fill, product, row

TEXT = {
    "pt": {
        "compare": "1. Comparar: cada consulta com cada chave",
        "softmax": "2. A softmax faz de cada linha de escores uma de pesos",
        "average": "3. Média: os pesos misturam os valores",
        "scores": "escores",
        "weights": "pesos",
        "query": "consultas",
        "key": "chaves, deitadas",
        "value": "valores",
        "output": "saída",
    },
    "en": {
        "compare": "1. Compare: each query with each key",
        "softmax": "2. The softmax turns each row of scores into weights",
        "average": "3. Average: the weights mix the values",
        "scores": "scores",
        "weights": "weights",
        "query": "queries",
        "key": "keys, transposed",
        "value": "values",
        "output": "output",
    },
}

MARKED, CELL = 2, 15  # a query, and the pixels of a number


def draw(text):
    generator = torch.Generator().manual_seed(0)  # the tensors of the program of the page
    query = torch.randn(2, 3, 5, 8, generator=generator)
    key = torch.randn(2, 3, 7, 8, generator=generator)
    value = torch.randn(2, 3, 7, 4, generator=generator)
    output, weights, _ = attnref.attend(query, key, value)
    scores = query @ key.mT
    head = (0, 0)

    strongest = weights[head][MARKED].max()
    shades = [
        Fill(slice(MARKED, MARKED + 1), slice(column, column + 1), STRONGEST * float(share))
        for column, share in enumerate(weights[head][MARKED] / strongest)
    ]
    figure = new_figure(414)
    plane = canvas(figure)
    for top, name in ((14, "compare"), (206, "softmax"), (238, "average")):
        plane.text(8, top, text[name], va="center", fontweight="semibold")
    marked = row(MARKED)
    product(
        plane,
        8,
        112,
        (text["query"], query[head], marked),
        (text["key"], key[head].T, WHOLE),
        (text["scores"], scores[head], marked),
        cell=CELL,
    )
    product(
        plane,
        8,
        326,
        (text["weights"], weights[head], *shades),
        (text["value"], value[head], WHOLE),
        (text["output"], output[head], marked),
        cell=CELL,
    )
    return figure
