"""The training loop: gradient accumulation, updates, and checkpoints from which the same run goes on bit for bit.

Batch k and all randomness of its step are pure functions of the seed and k, so that the whole state of a run is its
weights, its optimiser's moments and a few numbers. An objective returns sums; the step's loss is the weighted sum of
sum/count with counts taken over the whole global batch, however it is cut into micro-batches and ranks.

The host does not wait for the device: what a step gave is read while the next one runs. Whether a step is sane is
decided on the device, where an update that is not is left out; a step later the host knows, goes back to the last good
checkpoint and never uses that batch again. Nor does training wait for the disk: see `runs/writer.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from gpt1.base.devices import device_name, memory_peak, peak_flops
from gpt1.base.errors import FormatError, Gpt1Error, SettingError
from gpt1.base.records import check_record
from gpt1.model import DropoutKey, dropout_key
from gpt1.model.cuda_graphs import Pass, Recorder
from gpt1.model.layers import adding_in_products
from gpt1.recipes.values import FSDP, Logging
from gpt1.runs.checkpoints import Checkpoint, Rank, best_step, newest_checkpoint, rank, weights_hash
from gpt1.runs.events import Evaluated, Event, Listener, Noticed, RolledBack, Saved, Stepped
from gpt1.runs.folder import is_run, made_for, read_run
from gpt1.runs.shards import ShardWriter
from gpt1.runs.writer import CheckpointWriter, Snapshot
from gpt1.training.batches import Loader, share
from gpt1.training.config import Objective, TrainerConfig
from gpt1.training.distributed import (
    World,
    accumulating,
    all_finite,
    distribute,
    gradient_factor,
    load_whole,
    reshard,
    shares,
    whole,
)
from gpt1.training.optimizers import build_optimizer
from gpt1.training.schedules import factor
from gpt1.training.signals import StopRequests

RUNNING_WEIGHT = 0.05  # of the newest loss in the running mean that a spike is measured against
MOST_ROLLBACKS, ROLLBACK_SPAN = 3, 1000  # so many within so many batches end a run
# What a pass is given besides a part's own tensors.
DIVISORS, NOISE_WORD, NOISE_ROWS = "_divisors", "_noise_word", "_noise_rows"
FIRST_LOSS_SCALE, LOSS_SCALE_GROWTH_STEPS = 2.0**16, 2000  # fp16


class Diverged(Gpt1Error):
    """The run blew up again and again."""


@dataclass
class TrainerState:
    """Where a run is: with weights and moments, all that a restart needs."""

    step: int = 0  # updates made
    batch: int = 0  # the next batch
    skipped: list[int] = field(default_factory=list)  # batches that blew up
    rollbacks: list[int] = field(default_factory=list)  # the batches at which the run went back
    running_loss: float | None = None
    loss_scale: float = 1.0
    scale_age: int = 0  # steps since the loss scale changed
    cost: float | None = None  # of these weights, where they were evaluated
    tiebreak: float | None = None  # likewise: what decides between equal costs
    best_cost: float | None = None  # of all evaluations
    best_tiebreak: float | None = None
    best_step: int | None = None  # where it was saved
    ended_at: int | None = None  # the last update of a run that is over, where these weights are kept as its best
    stale: int = 0  # evaluations since the best one
    seconds: float = 0.0

    @property
    def rank(self) -> Rank | None:
        """How good these weights are, where they were evaluated."""
        return None if self.cost is None else rank(self.cost, self.tiebreak)

    @property
    def is_best(self) -> bool:
        """Whether these weights were evaluated, and none before them better."""
        return self.rank is not None and self.rank == self._best_rank

    @property
    def _best_rank(self) -> Rank | None:
        return None if self.best_cost is None else rank(self.best_cost, self.best_tiebreak)

    def judge(self, cost: float, tiebreak: float | None = None) -> None:
        """Note what an evaluation gave."""
        self.cost, self.tiebreak = (cost, tiebreak) if math.isfinite(cost) else (None, None)
        if self.rank is not None and (self._best_rank is None or self.rank < self._best_rank):
            self.best_cost, self.best_tiebreak, self.stale = cost, tiebreak, 0
        else:
            self.stale += 1

    @property
    def updates_made(self) -> int:
        """How far the run is, whichever of its weights these are."""
        return self.step if self.ended_at is None else self.ended_at

    def next_batch(self, after: int) -> int:
        """Return the first batch after this one that may be used."""
        batch = after + 1
        while batch in self.skipped:
            batch += 1
        return batch


class StepFigures:
    """Figures of a step on their way from the device; reading them waits for that step alone, not for later ones."""

    def __init__(self, step: int, batch: int, learning_rate: float, asked: Collection[str], figures: Tensor) -> None:
        self.step, self.batch, self.learning_rate = step, batch, learning_rate
        self.asked = asked  # the terms of the loss that the batch has something of
        self._arrived: torch.cuda.Event | None = None
        self._figures = figures
        if figures.is_cuda:
            self._figures = torch.empty_like(figures, device="cpu", pin_memory=True).copy_(figures, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def figures(self) -> list[float]:
        """Return loss, gradient norm, running loss, sanity (0 or 1), wishes to stop, then the terms."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return cast(list[float], self._figures.tolist())


class Trainer:
    """Trains a model until its updates are made, it is asked to stop, or it cannot go on."""

    def __init__(
        self,
        config: TrainerConfig,
        run: Path,
        *,
        device: torch.device,
        world: World,
        listeners: Iterable[Listener] = (),
        minutes: float | None = None,
    ) -> None:
        self.config, self.recipe, self.updates = config, config.recipe, config.updates
        self.run, self.device, self.world = run, device, world
        self._listeners, self._minutes = list(listeners), minutes
        training = config.recipe.training
        self._peak_flops = peak_flops(device_name(device), training.precision)
        objective = config.objective
        self.model = cast(Objective, objective).model
        self._weights = cast(Objective, objective).weights
        remembered = made_for(read_run(run)) if world.is_first and is_run(run) else {}
        self._writer = CheckpointWriter(run, remembered, config.recipe.logging, device)
        self._shard_writer: ShardWriter | None = None
        if world.roll_call is not None and training.parallelism == FSDP:
            beside = world.roll_call.beside("checkpoints")
            self._shard_writer = ShardWriter(run, remembered, config.recipe.logging, device, beside)
        self._first_weights: dict[str, Tensor] | None = None  # to go back to while there is no checkpoint
        # The best weights of a run that is over, where they are in memory; `wait_for_disk` has them there too.
        self.best: Checkpoint | None = None
        self._step_module = distribute(objective, self.model, world, training.parallelism)
        self._gradient_factor = gradient_factor(self._step_module, world)
        self.optimizer = build_optimizer(config.recipe.optimizer, self.model.named_parameters())
        own = share(training.batch, world.size)
        self._loader = Loader(
            config.batches, training.batch, min(training.micro_batch or own, own), world.rank, world.size, device
        )
        self._scales_loss = training.precision == "fp16"
        self.progress = TrainerState(loss_scale=FIRST_LOSS_SCALE if self._scales_loss else 1.0)
        self._dtype = torch.float64 if training.precision == "fp64" else torch.float32
        self._running = torch.tensor(math.nan, device=device, dtype=self._dtype)
        self._stopping = False
        self._began = self._logged_at = 0.0  # set when training begins
        # Weights in 16 bits, for products that add to the gradients themselves; a compiler has its own ways.
        fused = getattr(self.model, "fused", False) and device.type == "cuda" and world.size == 1
        adds = training.precision == "bf16" and (fused or (self._can_record() and not training.compile))
        self._copies = self.optimizer.keep_copies(torch.bfloat16) if adds else {}
        self._pass: Pass = self._forward_and_backward
        if self._can_record():
            self._pass = Recorder(self._pass)
        self._limit = math.inf if training.max_loss_spike is None else training.max_loss_spike

    def _can_record(self) -> bool:
        """Whether passes can be recorded: on one GPU, with nothing in them that the host decides anew."""
        training = self.recipe.training
        decides = self._scales_loss or training.checkpoint_activations
        return training.cuda_graphs and self.device.type == "cuda" and self.world.size == 1 and not decides

    # ---- state ----

    def restore(self, checkpoint: Checkpoint) -> None:
        """Put weights, moments and progress back to those of a checkpoint."""
        wanted = {name for name, _ in self.model.named_parameters()}
        if set(checkpoint.model) != wanted:
            odd = sorted(wanted ^ set(checkpoint.model))[0]
            raise FormatError(f"{checkpoint.path} does not fit this model: '{odd}' is in only one of them")
        progress = check_record(checkpoint.progress, TrainerState, checkpoint.path)
        if progress.best_step is None:  # as an earlier version saved it
            progress.best_step = best_step(self.run)
        reshard(self.model)
        if checkpoint.optimizer is not None:
            self.optimizer.load(checkpoint.optimizer)  # which checks the shapes
        elif not self._is_over(progress):
            raise SettingError(
                f"{checkpoint.path} was kept without the optimiser's moments, and training cannot go on from it; begin "
                "a new run with the settings wanted, or with `init` from this one; "
                "`changes=['logging.keep_optimizer=true']` keeps them there"
            )
        load_whole(self.model, checkpoint.model)
        self.optimizer.renew_copies()
        self._set_progress(progress)

    def _set_progress(self, progress: TrainerState) -> None:
        self.progress, running = progress, progress.running_loss
        self._running = torch.tensor(math.nan if running is None else running, device=self.device, dtype=self._dtype)

    def save(self) -> None:
        """Have a checkpoint of this moment written."""
        self.world.wait()  # another rank may still be reading the one that this one replaces
        state, running = self.progress, self._running.item()
        state.running_loss = None if math.isnan(running) else running
        if state.is_best:
            state.best_step = state.step
        if self._shard_writer is not None and not self.is_done:
            self._tell(self._shard_writer.save(self._snapshot(shares)))
        else:
            self._save_whole()
        self._first_weights = None

    def _save_whole(self) -> None:
        """Have whole tensors written, in one process; of a sharded run these are the last."""
        self._finish_shards()
        snapshot = self._snapshot(lambda tensors: whole(tensors, self.world))
        if self.world.is_first and self.is_done:
            self.best = self._writer.end(snapshot, self.progress.best_step, self._ended)
        elif self.world.is_first:
            self._writer.save(snapshot)

    def _snapshot(self, copied: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]) -> Snapshot:
        state = self.progress
        model, optimizer = copied(dict(self.model.named_parameters())), None
        if self.recipe.logging.keep_optimizer or not self.is_done:
            optimizer = copied(self.optimizer.state())
        return Snapshot(state.step, model, optimizer, asdict(state), state.rank, state.is_best)

    def _ended(self, best: Mapping[str, object]) -> dict[str, object]:
        """Return the progress of a run that is over, of which the best weights are kept, given theirs."""
        of_the_weights = {name: best.get(name) for name in ("step", "cost", "tiebreak")}
        return asdict(self.progress) | of_the_weights | {"ended_at": self.progress.step}

    def wait_for_disk(self) -> None:
        """Wait until what was saved is on the disk; for the first rank alone."""
        self._tell(self._writer.finish())
        if self.best is not None and self.best.weights_hash is None:
            self.best = replace(self.best, weights_hash=weights_hash(self.best.path))

    def _finish_shards(self) -> None:
        if self._shard_writer is not None:
            self._tell(self._shard_writer.finish())

    def _finish_saving(self) -> None:
        """Wait until what was saved is on the disk, for every rank to read."""
        self._finish_shards()
        if self.world.is_first:
            self.wait_for_disk()
        self.world.wait()

    def _tell(self, written: Iterable[Saved]) -> None:
        for saved in written:
            self._notify(saved)

    # ---- the loop ----

    def train(self) -> bool:
        """Train to the end and return True, or return False when asked to stop; either way the state is saved."""
        with self.saving():
            return self.make_updates()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Write what is saved beside whatever else is done meanwhile; when it ends well all is on the disk."""
        with self._writer, self._shard_writer or nullcontext():
            yield
            self._finish_saving()
            if self.is_done and self.world.is_first and not self.recipe.logging.keep_optimizer:
                self._writer.drop_moments()

    def make_updates(self) -> bool:
        """Do what `train` does, while `saving`: of a run that is over the end may still be on its way to the disk."""
        adding = adding_in_products(self.model, self._copies)
        with StopRequests(self._minutes) as self._stop, adding as self._additions:
            try:
                self._begin()
                is_done = self._loop()
                if not is_done:
                    self._finish_saving()
                return is_done
            finally:
                self._loader.close()

    def _begin(self) -> None:
        """See to it that there is always something to go back to."""
        self.optimizer.renew_copies()
        if self.progress.step == 0 and self.config.has_parent:
            self._first_weights = {name: weights.detach().clone() for name, weights in self.model.named_parameters()}
        elif self.progress.step == 0:
            self.save()
        self._restart_clock()

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is what ended the training."""
        return self._stop.signal is None

    def _loop(self) -> bool:
        before: StepFigures | None = None
        while not self.is_done:
            reading = self._step()
            if before is not None and not self._check_step(before):
                before = None
                continue
            before = reading
            if self._stopping or self._scales_loss or self._is_due(reading.step):
                before = None
                if self._check_step(reading) and self._evaluate_sample_save(reading) and self._stopping:
                    break
        return self.is_done

    @property
    def is_done(self) -> bool:
        """Whether all updates are made, or evaluations have not got better for as long as the recipe is patient."""
        return self._is_over(self.progress)

    def _is_over(self, progress: TrainerState) -> bool:
        patience = self.recipe.training.patience
        is_patient = patience is None or progress.stale < patience
        return progress.updates_made >= self.updates or not is_patient

    def _step(self) -> StepFigures:
        """Make one update, as far as the host can tell; whether it was one, `_check_step` learns."""
        progress, training = self.progress, self.recipe.training
        k = progress.batch
        following = progress.next_batch(k)
        micros, counts = self._loader.load(k, following)
        if self.device.type == "cuda":  # the attention library's own dropout; every other mask comes from the noise
            torch.cuda.manual_seed((training.seed * 1_000_003 + k) * 4096 + self.world.rank)
        whole = self._additions.written_whole
        self.optimizer.zero_grad(whole)
        shares = torch.zeros(len(self._weights) + 1, dtype=self._dtype, device=self.device)
        divisors = torch.tensor([counts[name] or 1.0 for name in self._weights], dtype=self._dtype)
        divisors = divisors.to(self.device, non_blocking=True)
        for index, micro in enumerate(micros):
            noise = dropout_key(training.seed, k, micro.sequences)
            inputs = {**micro.tensors, DIVISORS: divisors, NOISE_WORD: noise.word, NOISE_ROWS: noise.rows}
            with accumulating(self._step_module, self.model, last=index == len(micros) - 1):
                shares[:-1] += self._pass(inputs, is_first=index == 0 or not whole, **micro.facts)
        if self._stop:
            shares[-1] = 1.0
        asked = [name for name in self._weights if counts[name]]
        return self._update(k, following, asked, self.world.add_up(shares))

    def _forward_and_backward(self, inputs: dict[str, Tensor], *, is_first: bool, **facts: Any) -> Tensor:
        """Add a part's gradients to those that are there, and return its share of each term of the loss."""
        tensors = dict(inputs)
        divisors, noise = tensors.pop(DIVISORS), DropoutKey(tensors.pop(NOISE_WORD), tensors.pop(NOISE_ROWS))
        sums: dict[str, Tensor] = self._step_module(tensors, noise, **facts)
        means = torch.stack([sums[name] for name in self._weights]) / divisors
        loss = torch.stack([weight * mean for weight, mean in zip(self._weights.values(), means, strict=True)]).sum()
        with self._additions.of_pass(is_first=is_first):
            (loss * (self._gradient_factor * self.progress.loss_scale)).backward()
        return means.detach()

    def _update(self, k: int, following: int, asked: Collection[str], means: Tensor) -> StepFigures:
        progress, settings = self.progress, self.recipe.optimizer
        *terms, wishes = means.unbind()
        loss = torch.stack([weight * term for weight, term in zip(self._weights.values(), terms, strict=True)]).sum()
        norm = self.optimizer.gradient_norm() / progress.loss_scale
        is_spike = loss > self._running + self._limit  # false while there is no running loss
        sane = torch.isfinite(loss) & torch.isfinite(norm) & ~is_spike
        clipping = torch.ones_like(norm) if settings.clip is None else (settings.clip / norm).clamp(max=1.0)
        share = factor(self.recipe.schedule, progress.step + 1, self.updates)
        self.optimizer.step(progress.step + 1, share, clipping / progress.loss_scale, sane)
        running = torch.where(torch.isnan(self._running), loss, self._running.lerp(loss, RUNNING_WEIGHT))
        figures = torch.stack([loss, norm, self._running, sane.to(loss.dtype), wishes, *terms])
        self._running = torch.where(sane, running, self._running)
        progress.step += 1
        progress.batch = following
        return StepFigures(progress.step, k, settings.lr * share, asked, figures)

    def _check_step(self, reading: StepFigures) -> bool:
        """Learn how a step went; where it was not sane, undo and return False."""
        loss, norm, running, sane, stops, *terms = reading.figures()
        self._stopping = self._stopping or stops > 0
        if sane:
            self._steps_since_log += 1
            if self._scales_loss:
                self._grow_loss_scale()
            if reading.step % self.recipe.logging.log_every == 0 or reading.step in (1, self.updates):
                told = {name: term for name, term in zip(self._weights, terms, strict=True) if name in reading.asked}
                self._log(reading, loss, norm, told)
            return True
        if self._scales_loss and self.progress.loss_scale > 1 and math.isfinite(loss) and not math.isfinite(norm):
            self.progress.step -= 1  # fp16 ran out of range, which is how its scale is found: no update, no fault
            self.progress.loss_scale /= 2
            self.progress.scale_age = 0
        else:
            self._roll_back(reading, loss, norm, running)
        return False

    def _grow_loss_scale(self) -> None:
        self.progress.scale_age += 1
        if self.progress.scale_age == LOSS_SCALE_GROWTH_STEPS:
            self.progress.loss_scale *= 2
            self.progress.scale_age = 0

    def _roll_back(self, reading: StepFigures, loss: float, norm: float, running: float) -> None:
        skipped = sorted({*self.progress.skipped, reading.batch})
        rollbacks = [*self.progress.rollbacks, reading.batch]
        if not self._go_back():
            raise Diverged(
                f"the loss is {loss} at update {reading.step} and {self.run} has no checkpoint to go back to"
            )
        step = self.progress.step
        self.progress.skipped, self.progress.rollbacks = skipped, rollbacks
        if self.progress.batch in skipped:
            self.progress.batch = self.progress.next_batch(self.progress.batch)
        self._notify(RolledBack(reading.step, reading.batch, loss, norm, running, step))
        self._restart_clock()
        recent = [batch for batch in rollbacks if batch > reading.batch - ROLLBACK_SPAN]
        if len(recent) >= MOST_ROLLBACKS:
            self.save()
            self._finish_saving()
            raise Diverged(
                f"{len(recent)} batches blew up within {ROLLBACK_SPAN} (the last: batch {reading.batch}, loss "
                f"{loss:.4g}, gradient norm {norm:.4g}); the state of update {step} is saved in {self.run}. "
                "A lower optimizer.lr or a longer warm-up usually helps"
            )

    def _go_back(self) -> bool:
        """Put all back to the newest checkpoint, or to the first weights; return False where there are none either."""
        self._finish_saving()
        good = newest_checkpoint(self.run, lambda text: self._notify(Noticed(text)))
        if good is not None:
            self.restore(good)
            return True
        if self._first_weights is None:
            return False
        reshard(self.model)
        with torch.no_grad():
            for name, weights in self.model.named_parameters():
                weights.copy_(self._first_weights[name])
        self.optimizer.renew_copies()
        self.optimizer.reset()
        self._set_progress(TrainerState(loss_scale=self.progress.loss_scale))
        return True

    # ---- now and then ----

    def _is_due(self, step: int) -> bool:
        logging = self.recipe.logging
        often = (logging.log_every, logging.evaluate_every, logging.sample_every)
        return step in (1, self.updates) or _saves(logging, step) or any(_is_time(step, every) for every in often)

    def _evaluate_sample_save(self, reading: StepFigures) -> bool:
        """Evaluate, sample and save where it is time to; where the weights are no numbers, go back and return False."""
        step, logging, ends = reading.step, self.recipe.logging, reading.step == self.updates
        evaluate, sample = self.config.evaluate, self.config.sample
        evaluates = evaluate is not None and (_is_time(step, logging.evaluate_every) or ends)
        samples = sample is not None and logging.sample_every is not None
        samples = samples and (_is_time(step, logging.sample_every) or ends)
        # An evaluated checkpoint may be the best, and only what is saved can be.
        saves = _saves(logging, step) or ends or self._stopping or evaluates
        if not (samples or saves):
            return True
        if not all_finite(self.model.parameters(), self.world):  # a sane loss can still be followed by an insane update
            loss, norm, running, *_ = reading.figures()
            self._roll_back(reading, loss, norm, running)
            return False
        with self._clock_paused():
            # Of these very weights: another step's would make this one pass for the best.
            self.progress.cost = self.progress.tiebreak = None
            if evaluate is not None and evaluates:
                found = evaluate()
                self.progress.judge(found.cost, found.tiebreak)
                self._notify(Evaluated(step, found.scores))
            if sample is not None and samples:
                self._notify(sample(step))
            reshard(self.model)
            if saves:
                self.save()
        return True

    @contextmanager
    def _clock_paused(self) -> Iterator[None]:
        """Count the time until now as that of training, and none of what follows."""
        paused = time.monotonic()
        self.progress.seconds += paused - self._began
        yield
        self._began = time.monotonic()
        self._logged_at += self._began - paused

    def _restart_clock(self) -> None:
        self._began = self._logged_at = time.monotonic()
        self._steps_since_log = 0

    def _log(self, reading: StepFigures, loss: float, norm: float, terms: dict[str, float]) -> None:
        now = time.monotonic()
        steps, seconds = max(self._steps_since_log, 1), max(now - self._logged_at, 1e-9)
        speed = self.config.tokens_per_step * steps / seconds
        utilisation = None if self._peak_flops is None else speed * self.config.flops_per_token / self._peak_flops
        self._notify(
            Stepped(
                step=reading.step,
                steps=self.updates,
                batch=reading.batch,
                loss=loss,
                terms=terms,
                learning_rate=reading.learning_rate,
                gradient_norm=norm,
                tokens_per_second=speed,
                seconds_left=(self.updates - reading.step) * seconds / steps,
                memory_bytes=memory_peak(self.device),
                utilisation=utilisation,
            )
        )
        self._logged_at, self._steps_since_log = now, 0
        if self.world.is_first:
            with self._clock_paused():
                self._tell(self._writer.written())
                self._tell([] if self._shard_writer is None else self._shard_writer.written())

    def _notify(self, event: Event) -> None:
        if self.world.is_first:
            for listener in self._listeners:
                listener(event)


def _saves(logging: Logging, step: int) -> bool:
    """Whether it is time to save a checkpoint: what is to be kept for ever must be saved first."""
    return _is_time(step, logging.save_every) or logging.keeps(step) or logging.keeps_weights(step)


def _is_time(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
