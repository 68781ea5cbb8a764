"""Runs the package on a GPU within minutes, what is likeliest to fall first, and records it.

    python -m book.make.gpu --device cuda --output FOLDER
    python -m book.make.gpu --device cpu --only methods,checker

It needs PyTorch, NumPy and pytest, and Triton for what is compiled; nothing is installed, and the
package is the one beside it. Each part runs in a process of its own, so that one that crashes or
takes too long leaves the others; what it says is printed as it comes. All of it takes at most eight
minutes, on a CPU six times as long. In FOLDER, ``gpu/`` if none
is named, are a report of each part, with the provenance of the machine, and the benchmark's records
in the form of docs/results. The exit status is 1 where something fell.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attnref
from attnref import masks, oracle
from attnref.bench.plan import Settings, methods
from attnref.bench.problems import TASKS, Shape, exact_output, relative_error
from attnref.bench.provenance import provenance
from attnref.bench.runner import measure

ROOT = Path(__file__).resolve().parents[2]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# Of the norm of an answer: the roundings of its inputs and of itself, and in float32 those of sums
# of some hundred numbers.
BUDGET = {torch.float32: 64, torch.float16: 4, torch.bfloat16: 4}
# What approximates, or draws, is not the definition; here it has to be finite and repeatable.
OTHERS = {
    *("hierarchical", "indexer", "linear", "linformer", "lsh", "native_sparse", "nystrom"),
    *("performer", "quantized", "topk", "sdpa-unrestricted"),
}
# The tests that take --device and want no other library.
TESTS = [
    *("judges/test_torch.py", "test_reference.py", "variants", "test_multihead.py"),
    *("test_cache.py", "test_streaming_cache.py", "test_positions.py", "test_door.py"),
]

Attention = Callable[..., Tensor]
Said = Iterator[tuple[str, str | None]]  # what was tried, and what is wrong with it


def normal(device: torch.device, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Drawn on the processor, so that all devices see the same numbers."""
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))
    return drawn.to(device, dtype).requires_grad_()


def error(one: Tensor, other: Tensor) -> float:
    """Of the norm; not a number where something is not finite."""
    one, other = one.detach().double().cpu(), other.detach().double().cpu()
    return float((one - other).norm() / other.norm().clamp(min=1e-30))


def excess(found: float, dtype: torch.dtype, factor: float = 1.0) -> str | None:
    """What is wrong with an error, if it is."""
    most = factor * BUDGET[dtype] * torch.finfo(dtype).eps
    return None if found <= most else f"error {found:.2g}, expected at most {most:.2g}"


def check_methods(device: torch.device) -> Said:
    """Each method of the benchmark in each task, values, gradients and repeated, by dtype."""
    ours = {name: method for name, method in methods().items() if method.needs is None}
    for dtype in DTYPES:
        for name, method in ours.items():
            if name == "flex" and device.type == "cpu":
                continue  # it has no gradients there, and compiles for a minute
            for task, prepare in method.cases.items():
                shape = Shape(n=272, heads=4, head_dim=16, dtype=dtype, device=device, seed=1)
                about = f"{name}, {task}, {dtype}".replace("torch.", "")
                try:
                    problem = TASKS[task].make(shape)
                    if task != "decode":  # which a cache makes without gradients
                        problem = problem.with_gradients()
                    run = prepare(problem)
                    output = run()
                    wrong = None if torch.isfinite(output).all() else "an output is not finite"
                    if name not in OTHERS and wrong is None:
                        wrong = excess(relative_error(output, exact_output(problem)), dtype)
                    if output.requires_grad and wrong is None:
                        leaves = [
                            x
                            for x in vars(problem).values()
                            if isinstance(x, Tensor) and x.requires_grad
                        ]
                        loss = output.float().square().sum()
                        found = torch.autograd.grad(loss, leaves, allow_unused=True)
                        grads = [x for x in found if x is not None]
                        if not grads or not all(torch.isfinite(x).all() for x in grads):
                            wrong = "no gradient, or one that is not finite"
                    yield about, wrong
                except Exception as fallen:
                    yield about, describe_error(fallen)


def check_definition(device: torch.device) -> Said:
    """The definition, exact variants and PyTorch beside the oracle, with gradients and masks."""
    n, m = 37, 53
    some = torch.arange(n * m).reshape(n, m) % 5 != 0
    bias = normal(torch.device("cpu"), 5, n, m).detach()
    window = masks.sliding_window(n, window=9, is_causal=True).dense()
    asked: list[tuple[str, Tensor | None, bool]] = [
        *(("", None, False), (", bool", some, False), (", float", bias, False)),
        (", causal", None, True),
    ]
    exact_ones: list[tuple[str, Attention]] = [
        ("definition", attnref.scaled_dot_product_attention),
        ("blockwise", attnref.blockwise_attention),
        ("sdpa", sdpa),
    ]
    cases = [
        (name + kind, function, mask, is_causal)
        for name, function in exact_ones
        for kind, mask, is_causal in asked
    ]
    cases.append(("definition, window", attnref.scaled_dot_product_attention, window, False))
    cases.append(("sliding_window, window", _window_of_nine, window, False))
    for dtype in DTYPES:
        for name, function, mask, is_causal in cases:
            about = f"{name}, {dtype}".replace("torch.", "")
            keys = m if mask is not window else n
            q, k, v = (
                normal(device, 2, 5, *size, dtype=dtype)
                for size in ((n, 16), (keys, 16), (keys, 11))
            )
            if mask is bias:
                mask = bias.to(dtype)
            here = None if mask is None else mask.to(device)
            wide = [x.detach().double().cpu().requires_grad_() for x in (q, k, v)]
            plain = None if mask is None else (mask if mask.dtype == torch.bool else mask.double())
            try:
                output = function(q, k, v, attn_mask=here, is_causal=is_causal)
                arrays = [x.detach().numpy() for x in wide]
                expected = oracle.attend(
                    arrays[0],
                    arrays[1],
                    arrays[2],
                    attn_mask=None if plain is None else plain.numpy(),
                    is_causal=is_causal,
                ).output
                yield about, excess(error(output, torch.from_numpy(expected)), dtype)
                slopes = torch.autograd.grad(output.float().sin().sum(), (q, k, v))
                whole = attnref.scaled_dot_product_attention(
                    wide[0], wide[1], wide[2], plain, is_causal=is_causal
                )
                right = torch.autograd.grad(whole.sin().sum(), wide)
                worst = max(error(*pair) for pair in zip(slopes, right, strict=True))
                yield f"{about}, gradients", excess(worst, dtype, 3.0)
            except Exception as fallen:
                yield about, describe_error(fallen)


def _window_of_nine(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
    return attnref.sliding_window_attention(q, k, v, window=9, is_causal=True)


def check_context(device: torch.device) -> Said:
    """Autocast, torch.compile, caches, rows without keys and the layer."""
    x = normal(device, 1, 3, 24, 16)
    definition = attnref.scaled_dot_product_attention
    expected = definition(x, x, x, is_causal=True)
    for name, function in (
        ("definition", definition),
        ("blockwise", attnref.blockwise_attention),
        ("sliding_window", partial(attnref.sliding_window_attention, window=24)),
    ):
        try:
            with torch.autocast(device.type, torch.bfloat16):
                found = function(x, x, x, is_causal=True)
            yield f"{name} under autocast", excess(error(found, expected), torch.float32)
        except Exception as fallen:
            yield f"{name} under autocast", describe_error(fallen)
        try:
            compiled = torch.compile(function, fullgraph=True)
            found = compiled(x, x, x, is_causal=True)
            slope = torch.autograd.grad(found.sin().sum(), x)[0]
            other = torch.autograd.grad(expected.sin().sum(), x, retain_graph=True)[0]
            worst = max(error(found, expected), error(slope, other))
            yield f"{name} compiled", excess(worst, torch.float32)
        except Exception as fallen:
            yield f"{name} compiled", describe_error(fallen)
    try:
        nothing = torch.zeros(24, 24, dtype=torch.bool, device=device)
        output = definition(x, x, x, nothing)
        slope = torch.autograd.grad(output.sum(), x)[0]
        silent = not output.any() and bool(torch.isfinite(slope).all())
        yield "rows without keys", None if silent else "not zero, or a gradient that is not finite"
        cache, rows = attnref.KVCache(), []
        for i in range(24):
            keys, values = cache.append(x[..., i : i + 1, :], x[..., i : i + 1, :])
            rows.append(attnref.kv_cache_attention(x[..., i : i + 1, :], keys, values))
        yield "a cache, step by step", excess(error(torch.cat(rows, -2), expected), torch.float32)
        layer = attnref.MultiHeadAttention(48, 3).to(device)
        tokens, cache, parts = normal(device, 1, 24, 48), attnref.KVCache(), []
        for start in range(0, 24, 5):
            part = tokens[:, start : start + 5]
            parts.append(layer(part, is_causal=True, cache=cache))
        wrong = excess(error(torch.cat(parts, 1), layer(tokens, is_causal=True)), torch.float32)
        yield "the layer, in pieces", wrong
    except Exception as fallen:
        yield "caches", describe_error(fallen)


def check_ranks(device: torch.device) -> Said:
    """Attention across one rank, over NCCL on a GPU."""
    from torch import distributed

    from attnref.distributed import gather_attention, ring_attention, ulysses_attention

    store = f"file://{tempfile.mkdtemp()}/store"
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=store, rank=0, world_size=1)
    try:
        x = normal(device, 1, 3, 24, 16)
        expected = attnref.scaled_dot_product_attention(x, x, x, is_causal=True)
        other = torch.autograd.grad(expected.sin().sum(), x)[0]
        for function in (ring_attention, gather_attention, ulysses_attention):
            about = f"{function.__name__} over {backend}"
            try:
                found = function(x, x, x, is_causal=True)
                slope = torch.autograd.grad(found.sin().sum(), x)[0]
                worst = max(error(found, expected), error(slope, other))
                yield about, excess(worst, torch.float32)
            except Exception as fallen:
                yield about, describe_error(fallen)
    finally:
        distributed.destroy_process_group()


def check_checker(device: torch.device) -> Said:
    """What the checker says of functions that are right, on this device."""
    from attnref import check

    for function in (
        attnref.scaled_dot_product_attention,
        attnref.blockwise_attention,
        sdpa,
    ):
        for dtype in ("float32", "bfloat16"):
            about = f"the checker on {function.__name__}, {dtype}"
            try:
                report = check(function, device=str(device), dtype=dtype, limit=None)
                names = ", ".join(each.property for each in report.failures)
                yield about, None if report.passed() else f"wrong: {names}"
            except Exception as fallen:
                yield about, describe_error(fallen)


def run_tests(device: torch.device) -> Said:
    """The tests that take a device; each group of files in a process, all beside each other."""
    processes = {}
    for name in TESTS:
        command = [sys.executable, "-m", "pytest", "-q", "--maxfail=25", "-W", "default"]
        command += ["-p", "no:cacheprovider", "--device", str(device), f"tests/{name}"]
        log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (read when the process has ended)
        processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log), log
    for name, (process, log) in processes.items():
        status = process.wait()
        log.seek(0)
        lines = [x for x in log.read().splitlines() if x.startswith(("FAILED", "ERROR"))] or ["?"]
        yield f"tests/{name}", None if status == 0 else "; ".join(lines[:25])


def run_bench(device: torch.device, dtype: str, output: Path) -> Said:
    """The short form: a few tasks at two lengths, beside PyTorch's kernels and FlexAttention."""
    tasks = ("dense", "causal", "window", "decode")
    quick = device.type == "cpu"
    settings = Settings(
        tasks=tasks,
        methods=[
            *("sdpa", "flex", "blockwise", "sliding_window", "kv_cache", "linear", "quantized"),
        ][quick * 2 :],
        lengths=(256,) if quick else (1024, 8192),
        dtype=dtype,
        device=str(device),
        repeats=5,
        budget=5.0 if quick else 60.0,
    )
    record = measure(settings)
    path = output / f"{device.type}-{dtype}.json"
    record.save(path)
    for result in record.results:
        yield f"{result.task}, {result.method}, n={result.n}: {result.median * 1e3:.2f} ms", None
    for skip in record.skipped:
        yield f"{skip.task}, {skip.method}, n={skip.n}: {skip.reason}", None


def describe_error(fallen: Exception) -> str:
    """One line, and where in the package it was raised."""
    places = [x for x in traceback.extract_tb(fallen.__traceback__) if "attnref" in x.filename]
    where = f" ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""
    return f"{type(fallen).__name__}: {(str(fallen).splitlines() or [''])[0]}{where}"


PARTS: dict[str, tuple[Callable[[torch.device, Path], Said], float]] = {  # and its seconds, at most
    "methods": (lambda device, _: check_methods(device), 90),
    "definition": (lambda device, _: check_definition(device), 40),
    "context": (lambda device, _: check_context(device), 90),
    "ranks": (lambda device, _: check_ranks(device), 40),
    "checker": (lambda device, _: check_checker(device), 90),
    "tests": (lambda device, _: run_tests(device), 150),
    "bench-float32": (lambda device, folder: run_bench(device, "float32", folder), 100),
    "bench-bfloat16": (lambda device, folder: run_bench(device, "bfloat16", folder), 100),
}
MINUTES = 8.0


def part(name: str, device: torch.device, output: Path) -> int:
    """Runs one part in this process, and writes its report; how much fell."""
    where, tried, fell = provenance(device, []), 0, dict[str, str]()
    began = time.monotonic()
    for about, wrong in PARTS[name][0](device, output):
        tried += 1
        if wrong is not None:
            fell[about] = wrong
            print(f"{name}: {about}: {wrong}", flush=True)
        seconds = round(time.monotonic() - began, 1)
        report = {"part": name, "provenance": where, "tried": tried, "seconds": seconds}
        report["fallen"] = fell
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        (output / f"{device.type}-{name}-report.json").write_text(text, encoding="utf-8")
    print(f"{name}: {tried} tried, {len(fell)} fell", flush=True)
    return min(len(fell), 1)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda (default), cuda:1, cpu")
    parser.add_argument("--output", type=Path, default=ROOT / "gpu", help="folder of the reports")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.only.split(",")
    if unknown := set(names) - PARTS.keys():
        parser.error(f"--only: expected some of {', '.join(PARTS)}, got {', '.join(unknown)}.")
    try:
        torch.empty(1, device=asked.device)
    except (AssertionError, RuntimeError) as error_:
        parser.error(f"--device: expected one that PyTorch sees, got {asked.device}: {error_}.")
    asked.output.mkdir(parents=True, exist_ok=True)
    if asked.here:
        return part(names[0], torch.device(asked.device), asked.output)
    print(
        f"PyTorch {torch.__version__}, {asked.device}; reports go into {asked.output}", flush=True
    )
    slower = 6 if asked.device == "cpu" else 1
    deadline, status = time.monotonic() + 60 * slower * MINUTES, 0
    for name in names:
        command = [sys.executable, "-m", "book.make.gpu", "--here", "--only", name]
        left = min(slower * PARTS[name][1], deadline - time.monotonic())
        if left < 1:
            print(f"{name}: not begun, the time is over", flush=True)
            continue
        process = subprocess.Popen(
            [*command, "--device", asked.device, "--output", str(asked.output)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,  # with all that it starts, it can be stopped
        )
        try:
            ended = process.wait(left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(f"{name}: stopped after {left:.0f} s; see its report", flush=True)
            ended = 1
        if ended not in (0, 1):
            print(f"{name}: ended with status {ended}", flush=True)
        status = max(status, min(abs(ended), 1))
    return status


if __name__ == "__main__":
    sys.exit(main())
