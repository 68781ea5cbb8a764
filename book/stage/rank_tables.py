"""A recorded measurement across ranks as a table of the page; results.py says when."""

from html import escape

from attnref.bench.digits import milliseconds, three_digits
from attnref.bench.record import RankResult, Record

COLUMNS = {
    "pt": [
        "método",
        "tempo (ms)",
        "aceleração",
        "mensagens (ms)",
        "núcleos",
        "erro",
        "memória (MB)",
    ],
    "en": ["method", "time (ms)", "speedup", "messages (ms)", "cores", "error", "memory (MB)"],
}
WORDS = {
    "pt": {
        "group": "p = {ranks}, {threads} por rank, n = {n}",
        "thread": "1 thread",
        "threads": "{count} threads",
        "speed": "A aceleração compara os pares de consulta e chave por segundo com os do mesmo "
        "método em um rank com o mesmo número de threads; o ideal é p. “Mensagens” é o tempo do "
        "que se envia, sem calcular nada; “núcleos”, quantos deles todos os ranks mantiveram "
        "ocupados. O tempo é o do rank mais lento, e a memória, a do que ocupa mais.",
        "cores": "{count} núcleos",
        "elsewhere": "Enquanto isso, outros processos ocuparam {load:.2f} núcleo.",
    },
    "en": {
        "group": "p = {ranks}, {threads} per rank, n = {n}",
        "thread": "1 thread",
        "threads": "{count} threads",
        "speed": "The speedup compares the pairs of query and key per second with those of the "
        "same method on one rank with as many threads; the ideal is p. “Messages” is the time of "
        "what is sent, with nothing computed; “cores”, how many of them all ranks together kept "
        "busy. The time is that of the slowest rank, and the memory that of the one that holds "
        "most.",
        "cores": "{count} cores",
        "elsewhere": "Meanwhile, other processes kept {load:.2f} of a core busy.",
    },
}
# What is asked, by task.
QUESTIONS = {
    "pt": {
        "strong": "a mesma sequência para qualquer número p de ranks; atenção causal",
        "weak": "uma sequência que cresce com o número p de ranks; atenção causal",
    },
    "en": {
        "strong": "the same sequence for any number p of ranks; causal attention",
        "weak": "a sequence that grows with the number p of ranks; causal attention",
    },
}


def rank_table(record: Record, results: list[RankResult], language: str, notes: list[str]) -> str:
    """Each method by ranks and threads: its time, what it sends, what is busy, error, memory."""
    words = WORDS[language]
    task = results[0].task
    heads = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS[language])
    parts = []
    for n, ranks, threads in sorted({(x.n, x.ranks, x.threads) for x in results}):
        counted = words["thread" if threads == 1 else "threads"].format(count=threads)
        group = words["group"].format(ranks=ranks, threads=counted, n=n)
        parts.append(f'<tbody><tr><th colspan="7" scope="rowgroup">{group}</th></tr>')
        for x in results:
            if (x.n, x.ranks, x.threads) != (n, ranks, threads):
                continue
            one = record.single_rank_result(x)
            cells = (
                milliseconds(x.median),
                "" if one is None else f"{x.speed_against(one):.2f}",
                "" if x.messages is None else milliseconds(x.messages),
                "" if x.cores is None else f"{x.cores:.2f}",
                f"{x.error:.1e}",
                three_digits(x.peak_bytes / 1e6),
            )
            row = "".join(f"<td>{cell}</td>" for cell in cells)
            parts.append(f'<tr><th scope="row"><code>{x.method}</code></th>{row}</tr>')
        parts.append("</tbody>")
    load = record.provenance["busy_elsewhere"]
    elsewhere = "" if load is None else words["elsewhere"].format(load=load)
    said = " ".join(filter(None, (words["speed"], *notes, elsewhere)))
    return (
        f"<table><caption><code>{task}</code>: {escape(QUESTIONS[language][task])}</caption>"
        f"<thead><tr>{heads}</tr></thead>{''.join(parts)}</table><p>{said}</p>"
    )
