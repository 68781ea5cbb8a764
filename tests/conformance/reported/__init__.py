"""Bugs of attention code that were reported in public, each in a wrong and a right version.

The reports stand above the pairs; facts come from there, code was written anew. ``CASES`` says how
each is asked.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Case(NamedTuple):
    """A report, and how its wrong and its right version are asked: ``bad_name`` and ``good_name``.

    ``asked`` is ``"function"``, ``"step"`` or ``"layer"``, whose versions are ``BadName`` and
    ``GoodName``. The sentence that names the cause holds each of ``mentions``. ``options`` are
    those of the check: ``cache`` makes a step's first cache, ``against`` is the reference of what
    is not softmax attention to all keys (the right version), and ``matters`` are the values of
    other arguments with which the fault shows, where it does not by default.
    """

    report: str
    file: str
    name: str
    asked: str
    mentions: tuple[str, ...]
    options: Mapping[str, object] = {}

    @property
    def bad(self) -> str:
        return self._version("bad")

    @property
    def good(self) -> str:
        return self._version("good")

    def _version(self, kind: str) -> str:
        layer = self.asked == "layer"
        return f"{self.file}.py:" + (kind.title() if layer else f"{kind}_") + self.name


_OTHER = {"against": "good"}
_PACKED = {**_OTHER, "layout": "packed"}
_ONES = {"is_token": "ones, one for each token"}

CASES = [
    Case(report, *place.split("."), asked, tuple(mentions.split("; ")) if mentions else (), options)
    for report, place, asked, mentions, options in [
        # windows and sinks
        (
            *("huggingface/transformers#41184", "windows.bound", "function", "window"),
            {"map": ["window=sliding_window"]},
        ),
        (
            *("ROCm/hip-ep#144", "windows.single_query", "step", "window"),
            {"map": ["window=local_window_size"]},
        ),
        ("mistralai/mistral-inference#60", "windows.prompt", "step", "window", {}),
        ("ROCm/rocm-libraries#12227", "sinks.split", "function", "sink", _OTHER),
        ("rajveer43/VeloxQuant-MLX#370", "sinks.streaming", "step", "pieces", _OTHER),
        # recurrences
        (
            *("fla-org/flash-linear-attention#594", "recurrences.normalizer_axis", "function"),
            *("head", {**_OTHER, "layout": "bnhd"}),
        ),
        (
            *("fla-org/flash-linear-attention#268", "recurrences.normalizer_step", "step"),
            *("pieces", _OTHER),
        ),
        ("NVIDIA-NeMo/Automodel#2147", "recurrences.packed_state", "function", "border", _PACKED),
        (
            *("flashinfer-ai/flashinfer#5255", "recurrences.l2norm", "function"),
            *("use_qk_l2norm_in_kernel", _OTHER),
        ),
        ("vllm-project/vllm#23279", "recurrences.decay_start", "function", "border", _PACKED),
        ("AI-Hypercomputer/maxtext#5295", "recurrences.Padded", "layer", "attention_mask", _OTHER),
        # latent attention
        ("onnxruntime/mobius#548", "latent.mscale", "function", "factor", _OTHER),
        ("PaddlePaddle/PaddleFleet#1910", "latent.absorbed_pairs", "function", "absorbed", _OTHER),
        ("kekzl/imp#880", "latent.rotated_part", "function", "", _OTHER),
        # packed sequences, pages and caches
        (
            *("fla-org/flash-linear-attention#842", "packed.borders", "function"),
            *("is_token", {"matters": _ONES}),
        ),
        ("hw-native-sys/pypto#470", "paged.table", "function", "block_table", {}),
        ("flashinfer-ai/flashinfer#3716", "paged.last_page", "function", "cache_seqlens", {}),
        ("pegainfer-project/pegainfer#291", "paged.eager_page", "step", "empty", {}),
        (
            *("microsoft/onnxruntime-genai#2354", "steps.slots", "step"),
            *("empty", {"cache": "steps.py:make_slots"}),
        ),
        ("ollama/ollama#14912", "steps.ring", "step", "pieces", {}),
        (
            *("Mikyx-1/TinyLLM#18", "steps.prompt", "step"),
            *("causal mask is missing", {"cache": "steps.py:make_list"}),
        ),
        ("OpenNMT/OpenNMT-py#2532", "steps.mask", "step", "mask", {}),
        ("EricLBuehler/candle-vllm#140", "steps.lengths", "function", "cache_seqlens", {}),
        # positions
        ("EleutherAI/gpt-neox#1003", "rope.angles", "function", "half", _OTHER),
        ("Blaizzy/mlx-vlm#1983", "rope.position", "step", "position", _OTHER),
        ("meta-pytorch/attention-gym#86", "bias.sign", "function", "alibi_slopes", _OTHER),
        ("huggingface/candle#899", "bias.bias_step", "step", "position", _OTHER),
        # heads, masks and the cap
        ("HazyResearch/HipKittens#22", "heads.head_map", "function", "head", {}),
        (
            *("lucidrains/x-transformers#160", "masks.flash_mask", "function"),
            *("flash", {"matters": {"flash": True}}),
        ),
        ("rasbt/LLMs-from-scratch#1061", "masks.Causal", "layer", "future", {}),
        (
            *("huggingface/transformers#47946", "masks.encoder_mask", "function"),
            *("encoder_attention_mask", {"map": ["attn_mask=encoder_attention_mask"]}),
        ),
        ("sgl-project/sgl-kernel-xpu#491", "masks.softcap", "function", "softcap", {}),
        # merged parts and low precision
        ("flashinfer-ai/flashinfer#4051", "merging.empty", "function", "nan", {}),
        ("flashinfer-ai/flashinfer#4267", "merging.start", "function", "negative", {}),
        ("zhuzilin/ring-flash-attention#30", "merging.overflow", "function", "overflow", {}),
        ("pytorch/pytorch#181645", "merging.base", "function", "", {}),
        (
            *("flashinfer-ai/flashinfer#4979", "precision.scales", "function"),
            *("k_scale", {"matters": {"k_scale": 0.25, "v_scale": 0.5}}),
        ),
        ("sgl-project/sgl-kernel-xpu#252", "precision.head_scales", "function", "k_scale", {}),
        ("lablup/mlxcel#717", "precision.int8", "step", "error", {"approximate": True}),
        # branches, and other formulas
        ("huggingface/pytorch-image-models#1978", "branches.Dropping", "layer", "dropout", {}),
        (
            *("pytorch/pytorch#99282", "branches.weights", "function"),
            *("need_weights", {"matters": {"need_weights": True}}),
        ),
        ("Jaykef/ai-algorithms#1", "differential.difference", "function", "", _OTHER),
        ("tenstorrent/tt-metal#48700", "sparse.own_block", "function", "future", _OTHER),
        ("HKUSTDial/flash-sparse-attention#146", "sparse.chosen", "function", "future", _OTHER),
        ("osaurus-ai/vmlx-swift#429", "sparse.short", "function", "future", _OTHER),
        ("huggingface/transformers#46111", "cross.window", "function", "key", {}),
    ]
]
