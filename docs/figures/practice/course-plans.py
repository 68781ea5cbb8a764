"""The fourteen units of the course, and which of them the shorter plans take."""

from docs.figures.drawing import FIRST, GROUND, SMALL, SOFT, box, canvas, new_figure

TEXT = {
    "pt": {
        "units": "aula",
        "plans": "todas|seis|três|sem provas|algoritmos",
        "blocks": "a fórmula|a escala|a camada|o custo",
        "legend": "Cheio: dada. “Algoritmos” acrescenta as provas de custo.",
    },
    "en": {
        "units": "unit",
        "plans": "all|six|three|no proofs|algorithms",
        "blocks": "the formula|scale|the layer|the cost",
        "legend": "Filled: taught. “Algorithms” adds the proofs of cost.",
    },
}

ALL = set(range(1, 15))
PLANS = (ALL, {1, 4, 5, 7, 8, 9}, {1, 4, 5}, ALL - {6}, {5, 12, 13, 14})
BLOCKS = ((1, 4), (5, 6), (7, 11), (12, 14))
LEFT, STEP, TOP, ROW = 92, 23, 66, 34


def draw(text):
    figure = new_figure(TOP + 5 * ROW + 34)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}
    centres = {unit: LEFT + STEP * (unit - 0.5) for unit in ALL}
    for (first, last), name in zip(BLOCKS, text["blocks"].split("|"), strict=True):
        left, right = centres[first] - 10, centres[last] + 10
        plane.plot([left, right], [28, 28], color=SOFT, linewidth=1)
        plane.text((left + right) / 2, 14, name, ha="center", **small)
    plane.text(LEFT - 10, 46, text["units"], ha="right", **small)
    for unit, centre in centres.items():
        plane.text(centre, 46, str(unit), ha="center", **small)
    for row, (plan, name) in enumerate(zip(PLANS, text["plans"].split("|"), strict=True)):
        middle = TOP + ROW * (row + 0.5)
        plane.text(LEFT - 10, middle, name, ha="right", **small)
        for unit, centre in centres.items():
            ground = FIRST if unit in plan else GROUND
            box(plane, centre - 8, middle - 8, 16, 16, fill=ground, edge=SOFT)
    plane.text(8, TOP + 5 * ROW + 20, text["legend"], **small)
    return figure
