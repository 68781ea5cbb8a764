"""The exercises in the order in which they are best taken, by topic, with the page to read.

Each has a folder of its name here: the grader (``__init__.py``), the solution, and what is said
in each language. The learner's file and the function in it have that name too.
"""

COURSE = {
    "words": {
        "dot_scores": "foundations/six-words",
        "sum_normalise": "foundations/six-words",
        "stable_softmax": "foundations/softmax-or-sum",
        "context_vector": "foundations/six-words",
    },
    "formula": {
        "matrix_attention": "foundations/matrix-form",
        "scaled_attention": "scale/scale-factor",
    },
    "masks": {
        "causal_mask": "foundations/masks",
        "sliding_window_mask": "foundations/mask-traps",
        "padding_mask": "foundations/batches-and-padding",
        "masked_attention": "foundations/masks",
        "biased_attention": "foundations/masks",
        "safe_softmax": "foundations/mask-traps",
        "sealed_attention": "foundations/mask-traps",
        "padded_batch": "foundations/batches-and-padding",
    },
    "heads": {
        "split_heads": "foundations/multi-head",
        "multihead_attention": "foundations/multi-head",
        "grouped_query_attention": "foundations/grouped-queries",
        "decode_step": "foundations/kv-cache",
    },
    "positions": {
        "sinusoidal": "foundations/positions",
        "rotary": "foundations/positions",
        "alibi_bias": "foundations/positions",
    },
    "blocks": {
        "online_softmax": "complexity/memory",
        "merge_parts": "variants/blockwise",
        "blockwise_attention": "variants/blockwise",
    },
    "training": {
        "dropout_weights": "foundations/dropout",
        "softmax_backward": "scale/saturation",
        "attention_backward": "scale/scale-factor",
        "entropy": "scale/entropy",
    },
    "linear": {
        "linear_attention": "variants/linear",
        "linear_attention_step": "variants/linear",
        "delta_rule_step": "variants/gated-delta",
    },
    "today": {
        "absorbed_step": "variants/latent",
        "sink_softmax": "variants/sinks",
        "tree_mask": "variants/draft-trees",
        "gated_heads": "variants/gated",
        "differential_attention": "variants/differential",
        "bias_gradient": "variants/distance-bias",
        "paged_step": "variants/paged",
        "chosen_blocks": "variants/selected",
        "quantize_groups": "variants/eight-bit-floats",
        "lazy_rescaling": "complexity/roofline",
        "zigzag_positions": "variants/ring",
    },
}
