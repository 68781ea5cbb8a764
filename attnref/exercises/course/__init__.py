"""The exercises in the order in which they are best taken: by topic, page to read, difficulty.

The difficulty is 1 for a few lines with one idea, 2 for several steps or a trap, and 3 for several
ideas that have to be held together.

Each has a folder of its name here: the grader (``__init__.py``), the solution, and what is said
in each language. The learner's file and the function in it have that name too.
"""

COURSE = {
    "words": {
        "dot_scores": ("foundations/six-words", 1),
        "sum_normalise": ("foundations/six-words", 1),
        "stable_softmax": ("foundations/softmax-or-sum", 1),
        "context_vector": ("foundations/six-words", 1),
    },
    "formula": {
        "matrix_attention": ("foundations/matrix-form", 1),
        "scaled_attention": ("scale/scale-factor", 1),
    },
    "masks": {
        "causal_mask": ("foundations/masks", 1),
        "sliding_window_mask": ("foundations/mask-traps", 1),
        "padding_mask": ("foundations/batches-and-padding", 1),
        "masked_attention": ("foundations/masks", 1),
        "biased_attention": ("foundations/masks", 2),
        "safe_softmax": ("foundations/mask-traps", 2),
        "sealed_attention": ("foundations/mask-traps", 2),
        "padded_batch": ("foundations/batches-and-padding", 2),
    },
    "heads": {
        "split_heads": ("foundations/multi-head", 2),
        "multihead_attention": ("foundations/multi-head", 3),
        "grouped_query_attention": ("foundations/grouped-queries", 2),
        "decode_step": ("foundations/kv-cache", 1),
    },
    "positions": {
        "sinusoidal": ("foundations/positions", 2),
        "rotary": ("foundations/positions", 2),
        "alibi_bias": ("foundations/positions", 2),
    },
    "blocks": {
        "online_softmax": ("complexity/memory", 2),
        "merge_parts": ("variants/blockwise", 3),
        "blockwise_attention": ("variants/blockwise", 3),
    },
    "training": {
        "dropout_weights": ("foundations/dropout", 1),
        "softmax_backward": ("scale/saturation", 2),
        "attention_backward": ("scale/scale-factor", 3),
        "entropy": ("scale/entropy", 1),
    },
    "linear": {
        "linear_attention": ("variants/linear", 2),
        "linear_attention_step": ("variants/linear", 2),
        "delta_rule_step": ("variants/gated-delta", 3),
    },
    "today": {
        "absorbed_step": ("variants/latent", 3),
        "sink_softmax": ("variants/sinks", 2),
        "tree_mask": ("variants/draft-trees", 2),
        "gated_heads": ("variants/gated", 2),
        "differential_attention": ("variants/differential", 2),
        "bias_gradient": ("variants/distance-bias", 2),
        "paged_step": ("variants/paged", 3),
        "chosen_blocks": ("variants/selected", 3),
        "quantize_groups": ("variants/eight-bit-floats", 2),
        "lazy_rescaling": ("complexity/roofline", 3),
        "zigzag_positions": ("variants/ring", 2),
    },
}
