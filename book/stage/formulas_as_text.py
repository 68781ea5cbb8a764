"""Formulas as docstrings have them, in plain text, become those that the site sets.

``o_i = Σ_(j ≤ i) p_ij v_j / √d_k`` reads well in a terminal, an editor and a copied file; here it
becomes LaTeX. Only what the docstrings use is understood.
"""

import re

SIGNS = {"Σ": "\\sum ", "⋃": "\\bigcup ", "·": "\\cdot ", "ᵀ": "^\\top ", "²": "^2", "⁺": "^+"}
SIGNS |= {sign: f"\\{sign}" for sign in "{}#%"} | {"ℓ": "\\ell ", "∞": "\\infty ", "…": "\\dots "}
# Groups, words and functions, while a formula is read.
BRACKETS = {"⦃": "{", "⦄": "}", "⟦": "\\text{", "⟧": "}", "⟪": "\\", "⟫": " "}
ACCENTS = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde"}
ACCENT = re.compile(rf"(\w)([{''.join(ACCENTS)}])")
# Words, and not products of letters such as nmd: these have no vowel.
WORD = r"(?:(?=[A-Za-z]*[aeiou])[A-Za-z]{3,}(?:-[a-z]+)*|if|or|in|of|by|for|to|TV|PE|MHA)"
WORDS = re.compile(rf" ?(?<![A-Za-z_^⟪]){WORD}(?: {WORD})*(?![A-Za-z]) ?")
FUNCTIONS = re.compile(r"(?<![A-Za-z_^])(max|min|ln|log|exp|cos|sin|tanh|arg)(?![A-Za-z])")
INDEX = re.compile(r"([_^])([^\W_²ᵀ⁺]+)")
GROUP = re.compile(r"[_^√]\(")


def latex(text: str) -> str:
    """One formula."""
    text = FUNCTIONS.sub(lambda found: f"⟪{found[0]}⟫", text)
    text = WORDS.sub(lambda found: f"⟦{found[0]}⟧", text)
    text = INDEX.sub(lambda found: f"{found[1]}⦃{_letters(found[2])}⦄", text)
    while found := GROUP.search(text):
        end = _closing(text, found.end())
        inside = text[found.end() : end]
        text = f"{text[: found.start() + 1]}⦃{inside}⦄{text[end + 1 :]}"
    text = re.sub(r"√(\w(?:_⦃[^⦄]*⦄)?)", r"√⦃\1⦄", text).replace("√", "\\sqrt")
    text = "".join(SIGNS.get(sign, sign) for sign in text)
    text = ACCENT.sub(lambda found: f"\\{ACCENTS[found[2]]}{{{found[1]}}}", text)
    for sign, written in BRACKETS.items():
        text = text.replace(sign, written)
    return text.strip()


def display(lines: list[str]) -> list[str]:
    """Several formulas, one below the other, as the lines of a block."""
    if len(lines) == 1:
        return ["$$", latex(lines[0]), "$$"]
    rows = [f"{latex(line)} \\\\" for line in lines]
    return ["$$", "\\begin{gathered}", *rows, "\\end{gathered}", "$$"]


def _letters(index: str) -> str:
    return f"⟦{index}⟧" if re.fullmatch(WORD, index) else index


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that is open at ``start`` is closed."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"{text}: a parenthesis is not closed")
