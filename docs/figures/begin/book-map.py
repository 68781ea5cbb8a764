"""The rooms of the book: what rests on what, and in which order a student goes through them."""

from docs.figures.drawing import INK, SHADE, SMALL, SOFT, arrow, box, canvas, new_figure

TEXT = {
    "pt": {
        "begin": "Primeiros passos|uma primeira atenção",
        "formula": "Fundamentos|seis palavras até a fórmula",
        "scale": "Escala|por que a raiz",
        "layer": "Fundamentos|da fórmula à camada",
        "complexity": "Complexidade|quanto custa",
        "variants": "Variantes|o mesmo por menos",
        "pitfalls": "Erros comuns|com um erro na mão: entre aqui, sem ler nada antes",
        "practice": "Prática|ao lado das páginas ou depois delas",
        "legend": "Seta: apoia-se em. Número: a ordem do estudante.",
    },
    "en": {
        "begin": "Getting started|a first attention",
        "formula": "Foundations|six words to the formula",
        "scale": "Scale|why the square root",
        "layer": "Foundations|from the formula to a layer",
        "complexity": "Complexity|what it costs",
        "variants": "Variants|the same for less",
        "pitfalls": "Pitfalls|with an error in hand: enter here, read nothing before",
        "practice": "Practice|beside the pages, or after them",
        "legend": "Arrow: is read before. Number: the student's order.",
    },
}

LEFT, RIGHT, WIDE, HEIGHT, STEP = 8, 228, 184, 48, 80


def draw(text):
    figure = new_figure(484)
    plane = canvas(figure)

    def room(key, left, top, number="", width=WIDE, alpha=0.18):
        title, words = text[key].split("|")
        box(plane, left, top, width, HEIGHT, fill=SHADE, alpha=alpha)
        plane.text(left + 10, top + 16, title, va="center", fontweight="semibold")
        plane.text(left + 10, top + 35, words, va="center", fontsize=SMALL)
        plane.text(left + width - 10, top + 16, number, ha="right", va="center", color=INK)

    tops = [8 + STEP * row for row in range(4)]
    room("begin", LEFT, tops[0], "1")
    room("formula", LEFT, tops[1], "2")
    room("scale", RIGHT, tops[1], "3")
    room("layer", LEFT, tops[2], "4")
    room("complexity", RIGHT, tops[2], "5")
    room("variants", RIGHT, tops[3], "6")
    for top in (tops[0], tops[1]):
        arrow(plane, (LEFT + 92, top + HEIGHT), (LEFT + 92, top + STEP))
    for top in (tops[1], tops[2]):
        arrow(plane, (LEFT + WIDE, top + 24), (RIGHT, top + 24))
    arrow(plane, (RIGHT + 92, tops[2] + HEIGHT), (RIGHT + 92, tops[3]))
    room("practice", LEFT, 328, "7", width=404, alpha=0.08)
    room("pitfalls", LEFT, 396, width=404, alpha=0.08)
    plane.text(LEFT, 468, text["legend"], va="center", fontsize=SMALL, color=SOFT)
    return figure
