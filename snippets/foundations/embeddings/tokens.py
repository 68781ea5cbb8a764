"""One text, cut in three ways: the longest piece that is known comes first."""


# --8<-- [start:example]
def cut(text, known):
    """From left to right, each time the longest known piece, or a letter."""
    tokens = []
    while text:
        lengths = range(len(text), 0, -1)
        length = next(n for n in lengths if text[:n] in known or n == 1)
        tokens.append(text[:length])
        text = text[length:]
    return tokens


text = "the unhappiest reader"
for name, known in {
    "letters": set(),
    "pieces": {"the", "un", "happi", "est", "read", "er"},
    "words": {"the", "unhappiest", "reader"},
}.items():
    tokens = cut(text, known)
    print(f"{name:8} {len(tokens):2} tokens:", "|".join(tokens))
# --8<-- [end:example]
