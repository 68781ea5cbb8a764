"""How a layer is made: the arguments of its constructor that say how wide it is, by their names."""

import inspect
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_type_hints

import torch

from attnref.conformance.subject import CheckError

WIDTHS = (
    *("width", "embed_dim", "dim", "d_model", "hidden_size", "hidden_dim", "hidden_dims", "n_embd"),
    *("d_in", "d_out", "dim_in", "dim_out", "in_dim", "out_dim", "input_dim", "output_dim", "dims"),
    *("model_dim", "dim_model", "embed_size", "embedding_dim", "embedding_size", "emb_dim", "emb"),
    *("emb_size", "channels", "in_channels", "query_dim", "d_embed", "n_state", "features"),
    *("num_hiddens", "in_features", "model_size", "inner_dim"),
)
HEADS = (
    *("heads", "num_heads", "n_heads", "n_head", "nhead", "nheads", "head", "num_attention_heads"),
    *("n_attention_heads", "attention_heads", "head_num", "num_head", "h"),
)
HEAD_WIDTHS = (
    *("head_dim", "dim_head", "d_head", "head_size", "attention_head_dim", "head_width"),
    *("d_k", "d_v", "d_q", "dim_k", "dim_v", "dim_key", "dim_value", "d_qkv", "d_kv", "head_dims"),
)
KEY_HEADS = (
    *("kv_heads", "num_kv_heads", "n_kv_heads", "num_key_value_heads", "n_kv_head", "key_heads"),
    *("num_key_heads", "n_query_groups", "num_query_groups", "kv_head", "n_kv", "heads_kv"),
)
_DROPOUTS = (
    *("dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "attn_dropout", "attention_dropout"),
    *("resid_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_rate"),
)
_NUMBERS = ("layer_idx", "block_idx", "layer_id", "layer_number", "layer_index")
_CONFIGS = ("config", "cfg", "args", "params", "conf", "configuration")


class Shape(NamedTuple):
    """What a layer is made for: query heads, the width of each, and key heads."""

    heads: int
    head_width: int
    key_heads: int

    @property
    def width(self) -> int:
        """That of the sequence."""
        return self.heads * self.head_width

    def keywords(self) -> dict[str, int]:
        """The numbers by all the names that constructors have for them."""
        return {
            **dict.fromkeys(WIDTHS, self.width),
            **dict.fromkeys(HEADS, self.heads),
            **dict.fromkeys(HEAD_WIDTHS, self.head_width),
            **dict.fromkeys(KEY_HEADS, self.key_heads),
        }


class Maker:
    """A class of layers, or a function that makes one.

    Args:
        make: it.
        name: what messages call it.
        arguments: what its names do not say, for the constructor, for a config that it takes, or
            for each call of the layer.
    """

    def __init__(self, make: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> None:
        self.make = make
        self.name = name
        self.arguments = arguments
        self.taken: set[str] = set()  # of the arguments
        self.config: Any = None  # the class that its module has for its numbers

    def __call__(self, shape: Shape) -> Any:
        """A layer of that shape in evaluation mode, or whatever else is made.

        Random numbers go on as if none had been drawn.

        Raises:
            CheckError: when its constructor wants something that nobody has said.
        """
        try:
            made = self._build(shape)
        except AttributeError:  # a config has more than what is known of it by name
            if self.config is not None or not (beside := _sibling_config(self.make)):
                raise
            self.config = beside
            made = self._build(shape)
        if isinstance(made, torch.nn.Module):
            made.eval()  # which returns nothing where `train` is overridden carelessly
        return made

    def _build(self, shape: Shape) -> Any:
        filled = self._fill(self.make, shape)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(0)  # its weights are the same each time
            return self.make(**filled)

    def offers(self, names: tuple[str, ...]) -> bool:
        """Whether it can be told a number that has these names."""
        return any(name in _parameters(each) for each in self._makes() for name in names) or any(
            _is_config(name) and config is None
            for name, config in _configs(self.make).items()
            if name not in self.arguments
        )

    def _makes(self) -> list[Callable[..., Any]]:
        return [self.make, *(each for each in _configs(self.make).values() if each is not None)]

    def _says_heads_alone(self, make: Callable[..., Any]) -> bool:
        """Whether it is told of heads, and of a width by no name that is known."""
        names = {*_parameters(make)}
        return names.isdisjoint(WIDTHS) and not names.isdisjoint(HEADS)

    def _fill(self, make: Callable[..., Any], shape: Shape) -> dict[str, Any]:
        known, filled, missing = shape.keywords(), {}, []
        shared = shape.key_heads != shape.heads
        configs = _configs(make)
        for name, parameter in _parameters(make).items():
            usual = parameter.default
            if name in self.arguments:
                filled[name] = self.arguments[name]
                self.taken.add(name)
            elif name in known and (usual is not None or (shared and name in KEY_HEADS)):
                filled[name] = known[name]
            elif configs.get(name) is not None and usual in (None, inspect.Parameter.empty):
                filled[name] = configs[name](**self._fill(configs[name], shape))
            elif usual is not inspect.Parameter.empty:
                continue
            elif _is_config(name) and self.config is not None:
                filled[name] = self.config(**self._fill(self.config, shape))
            elif _is_config(name):
                dropouts = dict.fromkeys(_DROPOUTS, 0.0)
                filled[name] = SimpleNamespace(**{**known, **dropouts, **self.arguments})
                self.taken.update(self.arguments)
            elif name in _NUMBERS:
                filled[name] = 0
            elif "drop" in name:
                filled[name] = 0.0
            elif type(None) in get_args(_hints(make).get(name)):
                filled[name] = None
            else:
                missing.append(name)
        if len(missing) == 1 and self._says_heads_alone(make):
            filled[missing.pop()] = shape.width
        if missing:
            raise CheckError(
                "with: {name} needs a value for {missing}. Write --with {first}=…, in Python "
                'arguments={{"{first}": …}}, or name a function make(width, heads) that returns '
                "the layer.",
                name=self.name,
                missing=", ".join(missing),
                first=missing[0],
            )
        return filled


def is_maker(function: Any) -> bool:
    """Whether it is a class of layers, or looks like a function that makes one."""
    if inspect.isclass(function):
        return issubclass(function, torch.nn.Module)
    if isinstance(function, torch.nn.Module):
        return False
    try:
        names = _parameters(function)
    except (TypeError, ValueError):
        return False
    return any(name in WIDTHS for name in names) and any(
        name in (*HEADS, *HEAD_WIDTHS) for name in names
    )


def _parameters(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {
        name: each
        for name, each in inspect.signature(make).parameters.items()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }


def _configs(make: Callable[..., Any]) -> dict[str, Any]:
    """Parameters for an object that holds the numbers, each with its class, None if unknown."""
    hints, found = _hints(make), dict[str, Any]()
    for name in _parameters(make):
        kinds = [each for each in (hints.get(name), *get_args(hints.get(name))) if _holds(each)]
        if kinds or _is_config(name):
            found[name] = kinds[0] if kinds else None
    return found


def _sibling_config(make: Callable[..., Any]) -> Any:
    """The class of its config by its name: GPT2Config, for GPT2Attention, in the same module."""
    found = vars(sys.modules[make.__module__])
    stems = [name.removesuffix("Config") for name in found if name.endswith("Config")]
    fitting = [
        stem
        for stem in stems
        if stem and make.__name__.startswith(stem) and _holds(found[f"{stem}Config"])
    ]
    return found[f"{max(fitting, key=len)}Config"] if fitting else None


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(make.__init__ if inspect.isclass(make) else make)
    except Exception:  # of names that are imported for the type checker alone
        return {}


def _holds(kind: Any) -> bool:
    """Whether it is a class whose objects hold the numbers."""
    try:
        return inspect.isclass(kind) and not {*WIDTHS}.isdisjoint(_parameters(kind))
    except (TypeError, ValueError):
        return False


def _is_config(name: str) -> bool:
    return name in _CONFIGS
