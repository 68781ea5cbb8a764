"""What cannot be copied, said in both languages."""

from attnref.text import Text


class CopyError(ValueError):
    """Names what was wrong, and how to mend it."""

    def __init__(self, *, en: str, pt: str) -> None:
        super().__init__(en)
        self.text = Text(en=en, pt=pt)
