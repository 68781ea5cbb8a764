"""The exercises in the order in which they are best taken: by topic, page to read, difficulty.

Each is named with its difficulty, the page that explains it, and others for which it is practice.
The difficulty is 1 for a few lines with one idea, 2 for several steps or a trap, and 3 for several
ideas that have to be held together.

Each has a folder of its name here: the grader (``__init__.py``), the solution, and what is said
in each language. The learner's file and the function in it have that name too.
"""

COURSE: dict[str, dict[str, tuple[int, str, *tuple[str, ...]]]] = {
    "words": {
        "dot_scores": (1, "foundations/six-words", "foundations/dot-product"),
        "sum_normalise": (1, "foundations/six-words"),
        "stable_softmax": (1, "foundations/softmax-or-sum"),
        "context_vector": (1, "foundations/six-words", "foundations/embeddings"),
    },
    "formula": {
        "matrix_attention": (1, "foundations/matrix-form", "foundations/queries-keys-values"),
        "scaled_attention": (1, "scale/scale-factor", "scale/variance-proof", "pitfalls/numerics"),
    },
    "masks": {
        "causal_mask": (1, "foundations/masks", "pitfalls/positions-and-cache"),
        "sliding_window_mask": (
            1,
            "foundations/mask-traps",
            "variants/sliding-window",
            "pitfalls/masks",
        ),
        "padding_mask": (1, "foundations/batches-and-padding", "pitfalls/masks"),
        "masked_attention": (1, "foundations/masks"),
        "biased_attention": (2, "foundations/masks", "pitfalls/masks"),
        "safe_softmax": (2, "foundations/mask-traps", "pitfalls/masks"),
        "sealed_attention": (2, "foundations/mask-traps", "pitfalls/numerics"),
        "padded_batch": (2, "foundations/batches-and-padding", "pitfalls/shapes"),
    },
    "heads": {
        "split_heads": (2, "foundations/multi-head", "pitfalls/shapes"),
        "multihead_attention": (3, "foundations/multi-head", "foundations/queries-keys-values"),
        "grouped_query_attention": (2, "foundations/grouped-queries", "pitfalls/shapes"),
        "decode_step": (
            1,
            "foundations/kv-cache",
            "variants/kv-cache",
            "pitfalls/positions-and-cache",
            "complexity/training-prefill-decoding",
        ),
    },
    "positions": {
        "sinusoidal": (2, "foundations/positions"),
        "rotary": (2, "foundations/positions", "pitfalls/positions-and-cache"),
        "alibi_bias": (2, "foundations/positions"),
    },
    "blocks": {
        "online_softmax": (2, "complexity/memory"),
        "merge_parts": (3, "variants/blockwise", "variants/kv-cache"),
        "blockwise_attention": (3, "variants/blockwise"),
    },
    "training": {
        "dropout_weights": (1, "foundations/dropout", "pitfalls/numerics"),
        "softmax_backward": (2, "scale/saturation"),
        "attention_backward": (3, "scale/scale-factor"),
        "entropy": (1, "scale/entropy"),
    },
    "linear": {
        "linear_attention": (2, "variants/linear", "pitfalls/shapes"),
        "linear_attention_step": (2, "variants/linear"),
        "delta_rule_step": (3, "variants/gated-delta"),
    },
    "today": {
        "absorbed_step": (3, "variants/latent"),
        "sink_softmax": (2, "variants/sinks"),
        "tree_mask": (2, "variants/draft-trees"),
        "gated_heads": (2, "variants/gated"),
        "differential_attention": (2, "variants/differential"),
        "bias_gradient": (2, "variants/distance-bias"),
        "paged_step": (3, "variants/paged"),
        "chosen_blocks": (3, "variants/selected"),
        "quantize_groups": (2, "variants/eight-bit-floats"),
        "lazy_rescaling": (3, "complexity/roofline"),
        "zigzag_positions": (2, "variants/ring", "complexity/across-devices"),
    },
    "assembled": {
        "model": (
            3,
            "foundations/kv-cache",
            "complexity/training-prefill-decoding",
            "complexity/parallel-and-sequential",
            "explore/transformer",
        ),
    },
}
