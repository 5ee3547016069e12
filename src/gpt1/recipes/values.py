"""What a run is, as values: a network's shape, an optimiser, a schedule, a way of training, put together in a recipe.

Every default of a run stands here or in `catalog.py` and nowhere else. A value is checked whole when it is made, before
any file or device is touched. The defaults are the paper's; another recipe is the paper's with named changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpt1.base.errors import SettingError, unknown

TRANSFORMER, LSTM = "transformer", "lstm"
KINDS = (TRANSFORMER, LSTM)
NORMS = ("layer", "rms")
POSITIONS = ("learned", "rotary")
ACTIVATIONS = ("gelu", "relu2")
OPTIMIZERS = ("adam", "adamw", "muon")
SCHEDULES = ("cosine", "linear", "constant", "trapezoid")
PRECISIONS = ("bf16", "fp16", "fp32", "fp64")
AUGMENTED = 0.1  # word dropout of a fine-tuning that is only told to augment its texts
# How what a text's windows say becomes one answer; without, a text that does not fit the context loses its end.
NO_WINDOWS, MEAN, MAX, ATTENTION = "off", "mean", "max", "attention"
WINDOWS = (NO_WINDOWS, MEAN, MAX, ATTENTION)
# Settings of fine-tuning that change what is learned from, each off where it is 0; records hold those that are on.
TEXT_CHANGES = ("span_deletion", "word_swaps", "synonyms")  # shares of a text's words
AUGMENTATIONS = (*TEXT_CHANGES, "mixup", "r_drop")
FOLDS = 3  # of a cross-validation, at most
DDP, FSDP = "ddp", "fsdp"
PARALLELISMS = (DDP, FSDP)
# What a recipe may leave to the fine-tuning, and what decides it there.
DERIVED = {
    "optimizer.lr": "the parameters of the base",
    "training.batch": "the number of examples",
    "training.epochs": "the number of examples",
    "finetuning.windows": "how many texts do not fit the context",
}


def _check(sentences: dict[str, bool]) -> None:
    """Raise for the first sentence that does not hold."""
    for sentence, holds in sentences.items():
        if not holds:
            raise SettingError(sentence)


def _among(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise unknown(what, name, known)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A network; the defaults are those of the paper's section 4.1."""

    kind: str = TRANSFORMER
    layers: int = 12
    width: int = 768
    heads: int = 12
    feed_forward: int = 3072
    context: int = 512  # tokens
    norm: str = "layer"
    norm_first: bool = False  # normalise what enters a branch (today's way) or the sum after it (the paper's)
    positions: str = "learned"
    activation: str = "gelu"
    qk_norm: bool = False  # normalise queries and keys
    bias: bool = True
    tied: bool = True  # the output matrix is the token embedding
    window: int | None = None  # tokens a position looks back; None: all of them
    global_tokens: int = 0  # with a window: first positions that see and are seen everywhere; special tokens too
    dropout: float = 0.1  # everywhere: table, attention, branches, and in fine-tuning the classifier's input
    layer_drop: float = 0.0  # LayerDrop: share of the sequences that a layer passes on as they came, others each time
    init_std: float = 0.02
    units: int = 2048  # of the LSTM

    def __post_init__(self) -> None:
        _among("kind of network", self.kind, KINDS)
        _among("norm", self.norm, NORMS)
        _among("kind of positions", self.positions, POSITIONS)
        _among("activation", self.activation, ACTIVATIONS)
        heads = self.heads
        _check(
            {
                f"layers, width, heads, feed_forward and units are at least 1, not {self}": min(
                    self.layers, self.width, heads, self.feed_forward, self.units
                )
                >= 1,
                f"the context is at least 2 tokens, not {self.context}": self.context >= 2,
                f"width {self.width} does not split into {heads} heads; the paper has 768 and 12": self.kind == LSTM
                or (heads > 0 and self.width % heads == 0),
                f"rotary positions need an even width per head, not {self.width // max(heads, 1)}": self.positions
                != "rotary"
                or (self.width // max(heads, 1)) % 2 == 0,
                f"dropout is at least 0 and below 1, not {self.dropout}": 0 <= self.dropout < 1,
                f"layer_drop is at least 0 and below 1, not {self.layer_drop}": 0 <= self.layer_drop < 1,
                f"layer_drop is for Transformers; an LSTM has one layer, not {self.layer_drop}": self.kind
                == TRANSFORMER
                or self.layer_drop == 0,
                f"init_std is above 0, not {self.init_std}": self.init_std > 0,
                f"a window holds at least 1 token, not {self.window}": self.window is None or self.window >= 1,
                f"global_tokens is between 0 and the context of {self.context}, not {self.global_tokens}": 0
                <= self.global_tokens
                <= self.context,
                f"global_tokens is for Transformers; an LSTM looks at no other token, not at {self.global_tokens}": (
                    self.kind == TRANSFORMER or not self.global_tokens
                ),
                f"global_tokens={self.global_tokens} has no meaning without a window: set window, or leave it at 0": (
                    self.window is not None or not self.global_tokens
                ),
                f"an LSTM has one layer here, not {self.layers}": self.kind == TRANSFORMER or self.layers == 1,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """How a gradient moves the weights; `adam` is the released code's, which is not torch's AdamW."""

    kind: str = "adam"
    lr: float = 2.5e-4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01  # only of what has more than one dimension
    clip: float | None = 1.0  # global norm of the gradient
    matrix_lr: float = 0.02  # muon: for the matrices of the blocks; all else follows `lr` with AdamW
    momentum: float = 0.95  # muon

    def __post_init__(self) -> None:
        _among("optimiser", self.kind, OPTIMIZERS)
        _check(
            {
                f"lr is above 0, not {self.lr}": self.lr > 0,
                f"matrix_lr is above 0, not {self.matrix_lr}": self.matrix_lr > 0,
                f"beta1, beta2 and momentum are at least 0 and below 1, not {self}": all(
                    0 <= x < 1 for x in (self.beta1, self.beta2, self.momentum)
                ),
                f"epsilon is at least 1e-30, not {self.epsilon}: fp32 has nothing smaller": self.epsilon >= 1e-30,
                f"weight_decay is at least 0, not {self.weight_decay}": self.weight_decay >= 0,
                f"clip is above 0 (or none), not {self.clip}": self.clip is None or self.clip > 0,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the learning rate runs over the updates."""

    kind: str = "cosine"
    warmup_steps: int | None = 2000  # None: warmup_share alone decides
    warmup_share: float = 0.02  # of all updates, at most
    cooldown_share: float = 0.4  # trapezoid: of all updates, falling to 0 at the end

    def __post_init__(self) -> None:
        _among("schedule", self.kind, SCHEDULES)
        _check(
            {
                f"warmup_steps is at least 0, not {self.warmup_steps}": (self.warmup_steps or 0) >= 0,
                f"warmup_share is between 0 and 1, not {self.warmup_share}": 0 <= self.warmup_share <= 1,
                f"cooldown_share is between 0 and 1, not {self.cooldown_share}": 0 <= self.cooldown_share <= 1,
            }
        )

    def warmup(self, updates: int) -> float:
        """Return the share of `updates` that warms up."""
        if self.warmup_steps is None:
            return self.warmup_share
        return min(self.warmup_steps / max(updates, 1), self.warmup_share)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long, on how much at once, and how carefully."""

    batch: int = 64  # sequences an update
    micro_batch: int | None = None  # sequences at once on a device; None: its whole share, or as many as ever before
    epochs: float = 100
    steps: int | None = None  # updates; None: as many as the epochs give
    seed: int = 0
    precision: str = "bf16"  # of the arithmetic; weights and optimiser stay in fp32
    compile: bool = True  # on a GPU
    fused: bool = False  # on one GPU, in bf16: the paper's blocks by kernels of our own, not by the compiler's
    cuda_graphs: bool = False  # on one GPU: start the kernels of small batches all at once
    checkpoint_activations: bool = False  # compute activations twice to keep fewer in memory
    deterministic: bool = False  # bit for bit on a GPU too, at some cost
    parallelism: str = DDP  # with several processes: whole weights in each (ddp), or shared out (fsdp)
    max_loss_spike: float | None = 2.0  # nats above the running loss at which a batch is refused; None: never
    patience: int | None = None  # early stopping: evaluations without a better one before training ends; None: never
    # Of pre-training: masked next-token prediction, mixed in (GPT-BERT, Charpentier and Samuel 2024).
    masked_share: float = 0.0  # share of the batches that are read both ways, with some of their tokens masked
    mask_rate: float = 0.15  # share of the tokens of such a batch

    def __post_init__(self) -> None:
        _among("precision", self.precision, PRECISIONS)
        _among("parallelism", self.parallelism, PARALLELISMS)
        _check(
            {
                f"batch is between 1 and a million, not {self.batch}": 1 <= self.batch <= 1_000_000,
                f"micro_batch is at least 1, not {self.micro_batch}": self.micro_batch is None or self.micro_batch >= 1,
                f"epochs is above 0 and at most 100,000, not {self.epochs}": 0 < self.epochs <= 100_000,
                f"steps is at least 1, not {self.steps}": self.steps is None or self.steps >= 1,
                f"seed is between 0 and 2**31, not {self.seed}": 0 <= self.seed < 2**31,
                f"max_loss_spike is above 0 (or none), not {self.max_loss_spike}": self.max_loss_spike is None
                or self.max_loss_spike > 0,
                f"patience is at least 1 (or none), not {self.patience}": self.patience is None or self.patience >= 1,
                f"masked_share is at least 0 and below 1, not {self.masked_share}: some batches are read from left to "
                "right": 0 <= self.masked_share < 1,
                f"mask_rate is above 0 and below 1, not {self.mask_rate}": 0 < self.mask_rate < 1,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Logging:
    """How often a run is looked at and saved, in updates; None: at the end, and in fine-tuning after each epoch."""

    log_every: int = 10
    evaluate_every: int | None = 1000
    evaluate_tokens: int | None = None  # of the validation text; None: all of it
    sample_every: int | None = 1000  # None: no samples of generated text
    save_every: int | None = 1000
    keep: int = 2  # checkpoints, besides the best one
    keep_every: int | None = None  # every so many updates a checkpoint is saved that is never removed
    keep_optimizer: bool = True  # the moments, after the last update: without them a run cannot be made longer
    keep_weights: int | None = None  # after this update and each doubling of it weights stay, without moments

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check({f"{name} is at least 1, not {value}": value is None or isinstance(value, bool) or value >= 1})
        _check({"evaluate_tokens is at least 2, not 1: the first token is never predicted": self.evaluate_tokens != 1})

    def keeps(self, step: int) -> bool:
        """Whether the checkpoint of an update is never removed."""
        return self.keep_every is not None and step % self.keep_every == 0

    def keeps_weights(self, step: int) -> bool:
        """Whether the weights of an update are never removed, while their moments are: at 0, N, 2N, 4N, ... updates."""
        if self.keep_weights is None:
            return False
        times, rest = divmod(step, self.keep_weights)
        return rest == 0 and times.bit_count() <= 1


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """What fine-tuning takes over from pre-training, and what it learns besides; the paper's sections 3.2 and 4.1."""

    lm_weight: float = 0.5  # lambda: of the language model's loss beside the task's; 0 leaves it out
    transfer_layers: int | None = None  # blocks taken from the pre-trained network, from the first on; None: all
    scratch: bool = False  # take its shape and words, but none of its weights
    class_weights: bool = False  # let rare labels count as much as frequent ones
    word_dropout: float = 0.0  # share of the tokens of a text that are left out, others each time
    span_deletion: float = 0.0  # share of the words of a text that are left out in one stretch, others each time
    word_swaps: float = 0.0  # so many times two words of a text change places, as a share of its words
    synonyms: float = 0.0  # share of the words that are replaced by one that a list has for them
    mixup: float = 0.0  # a: examples are mixed in pairs, with their labels, by shares from Beta(a, a)
    r_drop: float = 0.0  # alpha: weight of how far two passes with other dropout are apart
    drop_last: bool = False  # leave the last batch of an epoch out where it is not whole, as the released code does
    ensemble: bool = False  # let counted words answer too, or alone, where that is better
    calibrate: bool = False  # fit on dev how sure answers are; where it is large, on a half that does not choose epochs
    windows: str = NO_WINDOWS  # a text that does not fit is read in several; mean, max, attention: how they answer
    bidirectional: bool = False  # attend to what comes after too; then there is no next token to learn beside the task
    domain_weight: float = 1.0  # with texts of a target domain: how hard the network unlearns which domain a text is of
    domain_ramp: bool = True  # let that weight rise from 0 by 2 / (1 + exp(-10 p)) - 1, p being the share of updates
    target_lm: bool = True  # learn the next tokens of the target domain's texts too, where `lm_weight` is above 0
    folds: int = FOLDS  # of the ensemble's cross-validation, if examples are few; 1: a third is held out once; 0: none

    def __post_init__(self) -> None:
        _among("way to read long texts", self.windows, WINDOWS)
        _check(
            {
                f"{name} is at least 0 and below 1, not {getattr(self, name)}": 0 <= getattr(self, name) < 1
                for name in TEXT_CHANGES
            }
        )
        _check(
            {
                f"lm_weight is at least 0, not {self.lm_weight}": self.lm_weight >= 0,
                f"transfer_layers is 0 or more, or none, not {self.transfer_layers}": (self.transfer_layers or 0) >= 0,
                "scratch takes no weights over, so transfer_layers has no meaning beside it": not (
                    self.scratch and self.transfer_layers is not None
                ),
                f"word_dropout is at least 0 and below 1, not {self.word_dropout}": 0 <= self.word_dropout < 1,
                f"mixup is at least 0, not {self.mixup}": self.mixup >= 0,
                f"r_drop is at least 0, not {self.r_drop}": self.r_drop >= 0,
                f"domain_weight is at least 0, not {self.domain_weight}": self.domain_weight >= 0,
                f"folds is between 0 and {FOLDS}, not {self.folds}": 0 <= self.folds <= FOLDS,
                "a bidirectional network sees the next token, so there is nothing to learn in predicting it: say "
                f"finetuning.lm_weight=0 too, not {self.lm_weight}": not self.bidirectional or self.lm_weight == 0,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides a run, data apart.

    Settings in `derived` are left to the fine-tuning, which knows base and examples (`recipes/derived.py`): until then
    each has its default, and one that is changed by its name is no longer among them.
    """

    name: str
    about: str = ""
    shape: Shape = field(default_factory=Shape)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    training: Training = field(default_factory=Training)
    logging: Logging = field(default_factory=Logging)
    finetuning: Finetuning = field(default_factory=Finetuning)
    derived: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.derived:
            _among("setting that can be derived", name, tuple(DERIVED))
            part, _, setting = name.partition(".")
            values = getattr(self, part)
            is_open = getattr(values, setting) == getattr(type(values)(), setting)
            _check({f"{name} has a value, so it cannot be derived as well": is_open})
        both_ways = {
            "training.masked_share": self.training.masked_share > 0,
            "finetuning.bidirectional": self.finetuning.bidirectional,
        }
        for name in (name for name, is_asked in both_ways.items() if is_asked):
            _check(
                {
                    f"{name} wants attention that looks both ways, and an LSTM has none": self.shape.kind != LSTM,
                    f"{name} wants attention that looks both ways, and a window (shape.window={self.shape.window}) "
                    "looks back alone": self.shape.window is None,
                }
            )
