"""Where the book explains something, for those who may have the installed package alone.

And how they install what an extra of the package brings, since no registry has the package.
"""

import functools
from importlib import metadata

# The pages that the package speaks of, and their titles in the languages of `_IN_THE_BOOK`.
TITLES = {
    "complexity/across-devices": ("Across devices, on paper", "Entre dispositivos, no papel"),
    "complexity/memory": ("Memory", "Memória"),
    "complexity/operations": ("Operations and parameters", "Operações e parâmetros"),
    "complexity/roofline": ("The roofline", "O modelo roofline"),
    "foundations/batches-and-padding": ("Batches and padding", "Lotes e preenchimento"),
    "foundations/dot-product": ("What a dot product measures", "O que mede um produto escalar"),
    "foundations/dropout": ("Dropout", "Dropout"),
    "foundations/grouped-queries": ("Grouped queries", "Consultas agrupadas"),
    "foundations/kv-cache": ("The KV cache", "O cache KV"),
    "foundations/mask-traps": ("Traps of masks", "Armadilhas das máscaras"),
    "foundations/masks": ("Masks", "Máscaras"),
    "foundations/matrix-form": ("The matrix form", "A forma matricial"),
    "foundations/multi-head": ("Multi-head attention", "Atenção multicabeça"),
    "foundations/positions": ("Positions", "Posições"),
    "foundations/queries-keys-values": ("Queries, keys and values", "Consultas, chaves e valores"),
    "foundations/six-words": ("Six words, by hand", "Seis palavras, à mão"),
    "foundations/softmax-or-sum": ("Softmax or the plain sum?", "Softmax ou soma?"),
    "pitfalls/numerics": ("Pitfalls: numbers", "Erros comuns: números"),
    "scale/entropy": ("Entropy", "Entropia"),
    "scale/factors-compared": ("Factors compared", "Fatores comparados"),
    "scale/saturation": ("Saturation", "Saturação"),
    "scale/scale-factor": ("The scale factor", "O fator de escala"),
    "variants/block-sparse": ("Block-sparse attention", "Atenção esparsa em blocos"),
    "variants/blockwise": ("Blockwise attention", "Atenção em blocos"),
    "variants/draft-trees": ("Drafts and trees", "Rascunhos em árvore"),
    "variants/eight-bit-floats": (
        "Floats of eight and four bits",
        "Ponto flutuante de oito e quatro bits",
    ),
    "variants/gated": ("Gated attention", "Atenção com portas"),
    "variants/gated-delta": ("The gated delta family", "A família delta com portas"),
    "variants/differential": ("Differential attention", "Atenção diferencial"),
    "variants/distance-bias": ("A learned bias for distance", "Um viés aprendido por distância"),
    "variants/hierarchical": ("Hierarchical attention", "Atenção hierárquica"),
    "variants/kv-cache": ("Decoding from a cache", "Decodificar a partir de um cache"),
    "variants/latent": ("Multi-head latent attention", "Atenção latente multicabeça"),
    "variants/linear": ("Linear attention", "Atenção linear"),
    "variants/linformer": ("Linformer", "Linformer"),
    "variants/lsh": ("Attention by hashing", "Atenção por hashing"),
    "variants/nystrom": ("The Nyström method", "O método de Nyström"),
    "variants/paged": ("A cache in pages", "Um cache em páginas"),
    "variants/performer": ("Performer, random features", "Performer, características aleatórias"),
    "variants/quantized": ("Quantised attention", "Atenção quantizada"),
    "variants/ring": ("Ring attention", "Atenção em anel"),
    "variants/selected": ("Chosen blocks and tokens", "Blocos e tokens escolhidos"),
    "variants/sinks": ("Attention sinks", "Attention sinks"),
    "variants/sliding-window": ("Sliding window", "Janela deslizante"),
    "variants/topk": ("Top-k attention", "Atenção top-k"),
    "variants/varlen": ("Variable length", "Comprimento variável"),
}
_IN_THE_BOOK = {
    "en": 'the page "{}" of the attnref book',
    "pt": 'a página "{}" do livro attnref',
}

_INSTALL = {
    "en": "Run pip install '.[{0}]' in a clone, or pip install './WHEEL[{0}]' with the site's "
    "wheel.",
    "pt": "Rode pip install '.[{0}]' em um clone, ou pip install './WHEEL[{0}]' com o arquivo "
    "WHEEL do site.",
}


def install(extra: str, lang: str) -> str:
    """How to install the libraries of an extra.

    Examples:
        >>> install("cli", "en")[:44]
        "Run pip install '.[cli]' in a clone, or pip "
    """
    return _INSTALL[lang].format(extra)


def where(page: str, lang: str) -> str:
    """The address of a page, or its title while the book has no address.

    Examples:
        >>> where("foundations/masks", "en").startswith(("https://", 'the page "Masks"'))
        True
    """
    site = address()
    if site is not None:
        return f"{site.rstrip('/')}/{lang}/{page}/"
    title = dict(zip(_IN_THE_BOOK, TITLES[page], strict=True))[lang]
    return _IN_THE_BOOK[lang].format(title)


@functools.cache
def address() -> str | None:
    """Where the site is: ``Documentation`` of the package's ``project.urls``, if it is there.

    None also for a package that is not installed, but lies beside the program.
    """
    try:
        urls = metadata.metadata("attnref").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    return dict(url.split(", ", 1) for url in urls).get("Documentation")
