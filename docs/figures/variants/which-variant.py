"""From the need to the method: four questions, each with a way out."""

from drawing import SHADE, SMALL, arrow, box, canvas, new

TEXT = {
    "pt": {
        "weighs": "O miolo pesa|em tempo ou memória?",
        "keep": "O kernel do PyTorch|já basta",
        "known": "Sabe-se que pares|importam?",
        "pattern": "Máscara como padrão|janela, blocos, empacotar",
        "exact": "Tem de ser exata|sobre todos os pares?",
        "all": "Poupar só memória|em blocos, cache",
        "trained": "O modelo pode ser|treinado com outra?",
        "other": "Outra função|linear, Linformer",
        "measure": "Aproximar, e medir o erro|top-k, hash, Nyström, hierárquica",
        "yes": "sim",
        "no": "não",
    },
    "en": {
        "weighs": "Does the core matter,|in time or memory?",
        "keep": "PyTorch's kernel|is enough",
        "known": "Is it known which|pairs matter?",
        "pattern": "The mask as a pattern|window, blocks, packing",
        "exact": "Must it be exact|over all pairs?",
        "all": "Save memory only|blockwise, cache",
        "trained": "Can you train with|another function?",
        "other": "Another function|linear, Linformer",
        "measure": "Approximate, measure the error|top-k, hashing, Nyström, hierarchical",
        "yes": "yes",
        "no": "no",
    },
}

LEFT, RIGHT, WIDE, HEIGHT, STEP = 8, 222, 172, 48, 80
# A question, the answer that leads out to the right, and where to.
WAYS = (
    ("weighs", "no", "keep"),
    ("known", "yes", "pattern"),
    ("exact", "yes", "all"),
    ("trained", "yes", "other"),
)


def draw(text):
    figure = new(8 + STEP * len(WAYS) + HEIGHT + 8)
    plane = canvas(figure)
    small = {"va": "center", "fontsize": SMALL}

    def words(key, left, top, width, *, fill=None, weight="normal"):
        box(plane, left, top, width, HEIGHT, fill=fill, alpha=0.18)
        first, second = text[key].split("|")
        plane.text(left + 10, top + 15, first, fontweight=weight, **small)
        plane.text(left + 10, top + 33, second, **small)

    for number, (question, answer, method) in enumerate(WAYS):
        top = 8 + STEP * number
        words(question, LEFT, top, WIDE)
        words(method, RIGHT, top, 190, fill=SHADE, weight="semibold")
        arrow(plane, (LEFT + WIDE, top + 24), (RIGHT, top + 24))
        plane.text(LEFT + WIDE + 19, top + 14, text[answer], ha="center", **small)
        onward = "yes" if answer == "no" else "no"
        arrow(plane, (LEFT + 40, top + HEIGHT), (LEFT + 40, top + STEP))
        plane.text(LEFT + 50, top + HEIGHT + 16, text[onward], **small)
    words("measure", LEFT, 8 + STEP * len(WAYS), 404, fill=SHADE, weight="semibold")
    return figure
