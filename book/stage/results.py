"""Puts recorded measurements into the page: a table for each ``results`` block, and charts.

A block names a task, and may choose methods, lengths and the record (cpu-float32 where none is
named); a chart, alone on its line, chooses by the same names, but shows all lengths:

    ```results
    task: window
    methods: sliding_window, sdpa
    lengths: 4096, 16384
    ```

    ![alternative text](chart:window?methods=sliding_window,sdpa)

A block of a record of ranks may choose ranks and threads, too.

What stands on a page is a wish, and every number is read from docs/results when the site is
built. A wish that no record fulfils stops the build. A table can be sorted and sifted, which
style/tables.js does.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl

from attnref.bench.chart import ENGLISH, chart
from attnref.bench.digits import milliseconds, three_digits
from attnref.bench.record import RankResult, RankSkipped, Record, Result, Skipped, stale_methods
from book.edition import Edition
from book.page import (
    ROOT,
    Block,
    Page,
    Problem,
    blocks,
    is_alone,
    lines_outside_blocks,
    of_the_package,
)
from book.stage import figures
from book.stage.rank_tables import WORDS as RANK_WORDS
from book.stage.rank_tables import rank_table

OPTIONS = ("task", "methods", "lengths", "ranks", "threads", "file")
LIKE = re.compile(r"\(\s*chart\s*:")
CHART = re.compile(
    r"!\[(?P<alt>[^\]]*)\]\(chart:(?P<task>[a-z]+)(?:\?(?P<query>[a-z0-9_=&,-]+))?\)"
)
AFTER = ("citations",)
WORDS = {
    "pt": {
        "title": "{task}: tempo e comprimento",
        "length": "n, número de chaves",
        "forward": "só a passagem direta",
        "backward": "passagens direta e reversa",
        "heads": "{heads} cabeças",
        "threads": "{threads} threads",
        "method": "método",
        "time": "tempo (ms)",
        "speed": "aceleração",
        "error": "erro",
        "memory": "memória (MB)",
        "left out": "Não medidos:",
        "slow": "passaria do tempo reservado",
        "large": "não caberia na memória",
        "samples": "medianas de {samples} amostras",
        "sample": "uma amostra de cada",
        "range": "{fewest} a {most}",
        "commit": "código do commit {commit}",
        "read": "Medido em {date} e lido de {file}",
        "changed": "Desde então, mudou o código de {methods}.",
        "sift": "Só os métodos com",
        "shown": "{shown} de {all} linhas",
        "speed against": "A aceleração é o tempo de {baseline} dividido pelo do método.",
    },
    "en": ENGLISH
    | {
        "backward": "forward and backward",
        "method": "method",
        "time": "time (ms)",
        "speed": "speedup",
        "error": "error",
        "memory": "memory (MB)",
        "left out": "Not measured:",
        "slow": "it would exceed the time set aside",
        "large": "it would not fit in memory",
        "samples": "medians of {samples} samples",
        "sample": "one sample of each",
        "range": "{fewest} to {most}",
        "commit": "code of commit {commit}",
        "read": "Measured on {date} and read from {file}",
        "changed": "The code of {methods} has changed since.",
        "sift": "Only methods with",
        "shown": "{shown} of {all} rows",
        "speed against": "The speedup is the time of {baseline} divided by the method's.",
    },
}
# What is asked, by task.
QUESTIONS = {
    "pt": {
        "dense": "cada consulta vê todas as chaves",
        "causal": "cada consulta vê as chaves até a sua posição",
        "window": "cada consulta vê as últimas 256 chaves até a sua posição",
        "blocks": "cerca de um em cada dez blocos de 128 × 128 é visto",
        "chosen": "cada consulta vê quatro blocos de 64 chaves, a saber o seu e três escolhidos",
        "packed": "oito sequências em fila, a primeira com dois terços dos tokens",
        "decode": "uma consulta por cabeça contra n chaves em cache, quatro cabeças por grupo",
        "drafts": "16 nós de uma árvore, os últimos de n em cache, quatro cabeças por grupo",
        "latent": "uma consulta por cabeça contra n latentes, cada um com a largura de 4 cabeças",
        "sink": "cada cabeça tem um attention sink aprendido; cada consulta vê as chaves até a sua",
        "delta": "um estado por cabeça que decai e é corrigido a cada token",
        "distance": "cada consulta vê todas as chaves, com um viés aprendido por distância",
        "differential": "a diferença de dois mapas, com metade das cabeças, de largura dupla",
        "paged": "uma consulta por cabeça e sequência, oito sequências, a mais longa com n tokens",
        "layer": "uma camada multicabeça inteira, com as projeções",
    },
    "en": {
        "dense": "every query sees every key",
        "causal": "every query sees the keys up to its own position",
        "window": "every query sees the last 256 keys up to its own position",
        "blocks": "about one block of 128 × 128 in ten is seen",
        "chosen": "every query sees four blocks of 64 keys, its own and three that it chooses",
        "packed": "eight sequences in a row, the first with two thirds of the tokens",
        "decode": "one query a head against n cached keys, four heads to a group",
        "drafts": "16 nodes of a tree, the last of n in the cache, four heads to a group",
        "latent": "one query a head against n latents, each as wide as four heads",
        "sink": "each head has a learned sink; each query sees the keys up to its own",
        "delta": "a state per head that decays and is corrected at each token",
        "distance": "every query sees every key, with a learned bias for each distance",
        "differential": "the difference of two maps, in half as many heads, twice as wide",
        "paged": "one query a head and sequence, eight sequences, the longest of n tokens",
        "layer": "a whole multi-head layer, projections included",
    },
}


@dataclass(frozen=True)
class Wish:
    """What a page asks of a record, which has it."""

    record: Record
    file: str
    task: str
    methods: tuple[str, ...]
    lengths: tuple[int, ...]
    ranks: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()

    @property
    def results(self) -> list[Result]:
        """In the order of the page's methods, shorter lengths first."""
        return sorted(
            (
                result
                for result in self.record.results
                if (result.task, result.method in self.methods, result.n in self.lengths)
                == (self.task, True, True)
                and self._has(result)
            ),
            key=lambda result: (result.n, self.methods.index(result.method)),
        )

    @property
    def rank_results(self) -> list[RankResult]:
        """The same, where the record is one of ranks."""
        return [result for result in self.results if isinstance(result, RankResult)]

    def _has(self, result: Result) -> bool:
        if not isinstance(result, RankResult):
            return True
        return result.ranks in self.ranks and result.threads in self.threads

    def lacks(self, skip: Skipped) -> bool:
        """Whether it was tried where this wish looks."""
        ranks = skip.ranks if isinstance(skip, RankSkipped) else None
        return (skip.task, skip.method in self.methods, skip.n in self.lengths) == (
            self.task,
            True,
            True,
        ) and (ranks is None or ranks in self.ranks)


def understand(options: dict[str, str], root: Path) -> Wish:
    """The wish that the options state; ValueError says what is wrong with them."""
    for name in options:
        if name not in OPTIONS:
            raise ValueError(f"option {name!r}: expected one of {', '.join(OPTIONS)}")
    if "task" not in options:
        raise ValueError("no task: write a line such as task: dense")
    task, file = options["task"], options.get("file", "cpu-float32")
    path = root / "docs" / "results" / f"{file}.json"
    if not path.is_file():
        found = ", ".join(sorted(kept.stem for kept in path.parent.glob("*.json")))
        raise ValueError(f"file {file!r}: no such record in docs/results; there are: {found}")
    record = _load(path)
    if task not in record.tasks():
        raise ValueError(f"task {task!r}: expected one of {', '.join(record.tasks())}")
    results = [result for result in record.results if result.task == task]
    known = list(dict.fromkeys(result.method for result in results))
    chosen = _list(options, "methods") or known
    for method in chosen:
        if method not in known:
            raise ValueError(
                f"method {method!r} is not recorded for task {task!r} in {file}: expected some "
                f"of {', '.join(known)}"
            )
    measured = {str(result.n): result.n for result in results if result.method in chosen}
    asked = _list(options, "lengths") or list(measured)
    for n in asked:
        if n not in measured:
            raise ValueError(
                f"length {n!r} was not measured for task {task!r} in {file} with these methods: "
                f"expected some of {', '.join(measured)}"
            )
    lengths = tuple(sorted(measured[n] for n in asked))
    counts = [_counts(options, name, record, file) for name in ("ranks", "threads")]
    wish = Wish(record, file, task, tuple(chosen), lengths, *counts)
    if not wish.results:
        raise ValueError(f"task {task!r}: {file} has no result for this choice")
    return wish


def _counts(options: dict[str, str], name: str, record: Record, file: str) -> tuple[int, ...]:
    """Which ranks, or threads of a rank, are asked for; all that there are where none is."""
    known = sorted({getattr(result, name) for result in record.rank_results()})
    for count in _list(options, name):
        if count not in map(str, known):
            expected = f"expected some of {', '.join(map(str, known))}" if known else "none is kept"
            raise ValueError(f"{name} {count!r}: not measured in {file}, {expected}")
    return tuple(map(int, _list(options, name))) or tuple(known)


def options_of(block: Block) -> dict[str, str]:
    """The options of a results block; ValueError for a line that states none."""
    options = {}
    for line in filter(None, map(str.strip, block.body)):
        name, colon, value = map(str.strip, line.partition(":"))
        if not colon or not value or name in options:
            raise ValueError(f"{line!r}: expected one line for each option, as in task: dense")
        options[name] = value
    return options


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Every wish of a page that no record fulfils, and charts that not everybody could read."""
    found = []
    for block in _results_blocks(text):
        try:
            understand(options_of(block), root)
        except ValueError as error:
            found.append(Problem(page, block.line, str(error)))
    lines = text.split("\n")
    for number, line in lines_outside_blocks(text):
        if not LIKE.search(line):
            continue
        match = CHART.fullmatch(line.strip())
        if match is None or not is_alone(lines, number):
            message = (
                "a chart is a paragraph of its own, on one line: ![alternative text](chart:task) "
                "or ![alternative text](chart:task?methods=one,two&file=cpu-bfloat16)"
            )
            found.append(Problem(page, number, message))
        elif not match["alt"].strip() or re.search(r"[$`*\"]", match["alt"]):
            message = (
                f"chart {match['task']!r}: say in plain text between the brackets, without $, `, * "
                'and ", what is seen and what follows from it'
            )
            found.append(Problem(page, number, message))
        else:
            try:
                options = _options(match)
                if "lengths" in options:
                    raise ValueError("lengths: a chart shows them all; leave this option out")
                if understand(options, root).rank_results:
                    raise ValueError("a chart is of lengths; show ranks with a results block")
            except ValueError as error:
                found.append(Problem(page, number, str(error)))
    return found


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if not LIKE.search(markdown) and "```results" not in markdown:
        return markdown
    lines, language = markdown.split("\n"), edition.language
    for number, line in lines_outside_blocks(markdown):
        if match := CHART.fullmatch(line.strip()):
            wish = understand(_options(match), ROOT)
            drawn = chart(wish.record, wish.task, methods=wish.methods, words=WORDS[language])
            digest = hashlib.sha256(drawn.encode()).hexdigest()[:8]
            place = f"{figures.FOLDER}/{wish.task}-{digest}.svg"
            edition.files[place] = drawn
            caption = provenance(wish, language)
            lines[number - 1] = figures.image(page, match["alt"], place, caption)
    for block in reversed(list(_results_blocks(markdown))):
        shown = table(understand(options_of(block), ROOT), language)
        fence = lines[block.line - 1]
        indent = fence[: len(fence) - len(fence.lstrip())]
        lines[block.line - 1 : block.line + len(block.body) + 1] = ["", indent + shown, ""]
    return "\n".join(lines)


def table(wish: Wish, language: str) -> str:
    """Time, speed against the baseline, error and memory of each method, by length."""
    words = WORDS[language]
    sift = f'data-sift="{words["sift"]}" data-shown="{words["shown"]}"'
    if wish.rank_results:
        notes = [_left_out(wish, words), provenance(wish, language)]
        shown = rank_table(wish.record, wish.rank_results, language, notes)
        return f'<div class="results" data-search-exclude {sift}>{shown}</div>'
    baseline = of_the_package()["baselines"][wish.task]
    base = {
        result.n: result.median
        for result in wish.record.results
        if (result.task, result.method) == (wish.task, baseline)
    }
    heads = "".join(
        f'<th scope="col">{words[name]}</th>'
        for name in ("method", "time", "speed", "error", "memory")
    )
    parts = []
    for n in wish.lengths:
        parts.append(f'<tbody><tr><th colspan="5" scope="rowgroup">n = {n}</th></tr>')
        for result in (result for result in wish.results if result.n == n):
            cells = (
                milliseconds(result.median),
                _ratio(base[n] / result.median) if n in base else "",
                f"{result.error:.1e}",
                three_digits(result.peak_bytes / 1e6),
            )
            row = "".join(f"<td>{cell}</td>" for cell in cells)
            parts.append(f'<tr><th scope="row"><code>{result.method}</code></th>{row}</tr>')
        parts.append("</tbody>")
    question = escape(QUESTIONS[language][wish.task])
    against = words["speed against"].format(baseline=f"<code>{baseline}</code>")
    said = " ".join(filter(None, (against, _left_out(wish, words), provenance(wish, language))))
    return (
        f'<div class="results" data-search-exclude {sift}>'
        f"<table><caption><code>{wish.task}</code>: {question}</caption>"
        f"<thead><tr>{heads}</tr></thead>{''.join(parts)}</table><p>{said}</p></div>"
    )


def provenance(wish: Wish, language: str) -> str:
    """Where the numbers come from: date, record, machine, versions, code, and whose has changed."""
    words = WORDS[language]
    made, chosen = wish.record.provenance, wish.record.settings
    counts = [result.samples for result in wish.results]
    fewest, most = min(counts), max(counts)
    samples = f"{most}" if fewest == most else words["range"].format(fewest=fewest, most=most)
    needs = of_the_package()["needs"]
    peers = sorted({needs[name] for name in wish.methods if name in needs})
    parts = (
        made["accelerator"] or f"{made['processor']} ({made['capability']})",
        _processors(wish, language),
        chosen["dtype"],
        words["backward" if chosen["backward"] else "forward"],
        words["heads"].format(heads=chosen["heads"]),
        f"d = {chosen['head_dim']}",
        words["sample"] if most == 1 else words["samples"].format(samples=samples),
        *(f"{name} {made['versions'][name]}" for name in ("torch", *peers)),
        words["commit"].format(commit=made["commit"][:7]),
    )
    where = f"<code>docs/results/{wish.file}.json</code>"
    read = words["read"].format(date=made["date"], file=where)
    said = f"{read}: {escape(', '.join(map(str, parts)))}."
    changed = [f"<code>{name}</code>" for name in wish.methods if name in _stale_methods(wish.file)]
    if changed:
        said += " " + words["changed"].format(methods=", ".join(changed))
    return said


@cache
def _stale_methods(file: str) -> list[str]:
    return stale_methods(Record.load(ROOT / "docs" / "results" / f"{file}.json"))


def _processors(wish: Wish, language: str) -> str:
    """Threads of the only process, or the cores that ranks share."""
    made = wish.record.provenance
    if wish.rank_results:
        return RANK_WORDS[language]["cores"].format(count=made["cores"])
    return WORDS[language]["threads"].format(threads=made["threads"])


def _ratio(speed: float) -> str:
    """Two decimals, or a whole number where they would pretend to more than is known."""
    return f"{speed:.2f}" if speed < 10 else f"{speed:.0f}"


def _left_out(wish: Wish, words: dict[str, str]) -> str:
    """What was tried at these lengths and not measured, and why."""
    reasons: dict[str, list[str]] = {}
    for skip in wish.record.skipped:
        if wish.lacks(skip):
            kind = re.match(r"(?:might take|takes) |(might need) ", skip.reason)
            reason = words["large" if kind[1] else "slow"] if kind else escape(skip.reason)
            ranks = f", p = {skip.ranks}" if isinstance(skip, RankSkipped) and skip.ranks else ""
            place = f"<code>{skip.method}</code>, n = {skip.n}{ranks}"
            reasons.setdefault(reason, []).append(place)
    told = [f"{'; '.join(places)} ({reason})" for reason, places in reasons.items()]
    return f"{words['left out']} {'; '.join(told)}." if told else ""


@cache
def _load(path: Path) -> Record:
    return Record.load(path)


def _results_blocks(text: str) -> Iterator[Block]:
    return (block for block in blocks(text) if block.language == "results")


def _options(match: re.Match[str]) -> dict[str, str]:
    """The options of a chart."""
    query = dict(parse_qsl(unescape(match["query"] or ""), keep_blank_values=True))
    return {"task": match["task"]} | query


def _list(options: dict[str, str], name: str) -> list[str]:
    return [value.strip() for value in options.get(name, "").split(",") if value.strip()]


def book_contract(root: Path) -> list[Problem]:
    """Records of code that no commit holds."""
    found = []
    for path in sorted((root / "docs" / "results").glob("*.json")):
        kept = Record.load(path)
        if kept.provenance["dirty"] is not False:
            found.append(Problem(path, 1, "measured with uncommitted code; commit, run make bench"))
    return found


def stale_problems(root: Path) -> list[Problem]:
    """Methods whose code has changed since; tables say so, and before a release it is measured."""
    return [
        Problem(path, 1, f"the code of {method} has changed since it was measured; run make bench")
        for path in sorted((root / "docs" / "results").glob("*.json"))
        for method in stale_methods(Record.load(path))
    ]
