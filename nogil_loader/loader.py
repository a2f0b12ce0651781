"""The loader: arguments become a plan, a recipe and a pool; each ``iter()`` becomes one epoch."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from time import perf_counter
from types import TracebackType
from typing import Any

from nogil_loader import options
from nogil_loader.checks import as_count, as_flag, as_seconds
from nogil_loader.collate import DefaultCollate
from nogil_loader.data.protocols import check_dataset
from nogil_loader.engine.epochs import Beginning, Current, Epochs
from nogil_loader.engine.forks import renew_lock_after_fork
from nogil_loader.engine.free_threading import warn_of_reenabled_gil
from nogil_loader.engine.inline import InlineCrew
from nogil_loader.engine.iterator import CLOSE_SECONDS, LoaderIterator
from nogil_loader.engine.ledger import Ledger
from nogil_loader.engine.outcome import SkipRecord, clear_locals
from nogil_loader.engine.reader import Reading
from nogil_loader.engine.recipe import Recipe
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.snapshot import snapshot
from nogil_loader.engine.source import TicketSource, resolve_source
from nogil_loader.engine.staff import Staff
from nogil_loader.engine.statistics import Statistics
from nogil_loader.engine.threaded import ThreadCrew
from nogil_loader.engine.totals import Life, Totals
from nogil_loader.engine.tuning import Setting, capacity_of
from nogil_loader.errors import DeadWorkerError, LoaderError, copy_without_traceback
from nogil_loader.fixed import Fixed
from nogil_loader.memory.pool import pool
from nogil_loader.plan import LoaderState
from nogil_loader.policies import FailurePolicy, MemoryPolicy


class DataLoader(Fixed, Iterable[Any]):
    """Iterates a dataset in batches that worker threads load ahead.

    Argument names and meanings are those of ``torch.utils.data.DataLoader`` where torch has them.

    Args:
        dataset: Map-style (``__getitem__`` and ``__len__``, optionally ``__getitems__`` for whole batches) or
            iterable (``__iter__``). Several threads call it at once.
        batch_size: Samples per batch. None hands samples through one by one, as they are.
        shuffle: A new random order in each epoch, a function of (seed, epoch).
        sampler: Iterable of dataset keys; excludes ``shuffle``.
        batch_sampler: Iterable of lists of keys; excludes ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: Worker threads. ``"auto"`` begins with as many as there are CPUs that the process may use, and
            while the consumer waits for data, tries whether fewer or more load faster (with ``worker_init_fn`` or
            ``clone_dataset`` it stays at the beginning). 0 loads in the caller's thread. The stream of batches is
            the same for any number.
        collate_fn: From a list of samples to a batch. By default `default_collate`, which writes samples into
            the batch while they are fetched.
        pin_memory: Copy torch tensors into page-locked memory; a warning where there is no accelerator.
        drop_last: Leave out an incomplete last batch.
        timeout: Seconds that a worker may spend without progress (on one sample, or in one call of
            ``__getitems__`` or ``collate_fn``) before it is given up on; 0 for no limit. Start-up does not
            count. Without effect for ``num_workers=0``.
        worker_init_fn: Called in each new worker thread with the worker's id.
        multiprocessing_context: Accepted and ignored with a warning; there are no processes.
        generator: ``torch.Generator`` or numpy ``Generator`` from which the seed is taken; excludes ``seed``.
        prefetch_factor: Batches loaded ahead per worker, beside those being loaded; None for 2, ``"auto"`` to
            begin with 2 and try whether more load faster.
        persistent_workers: Keep the threads, and what ``worker_init_fn`` and ``clone_dataset`` made, from one
            completed epoch to the next. Leaving an epoch early ends them in any case.
        pin_memory_device: Accepted and ignored with a warning.
        in_order: Deliver batches in plan order. False delivers whatever is ready first.
        seed: Of the order and of `sample_rng`, 0 to 2**64 - 1. None draws one, see ``loader.seed``.
        transform: Declared augmentation, compiled to run without the GIL: a transform
            (`nogil_loader.transforms`) for samples that are arrays, or a mapping from keys of a sample to
            transforms; a tuple of keys for those that work on several parts, such as an image with its mask.
            Each entry draws random numbers of its own. Joint transforms come first, those of batches last.
        output: ``"torch"`` turns arrays into tensors without a copy, ``"numpy"`` tensors into arrays;
            ``"auto"`` keeps what the samples have. A user's ``collate_fn`` decides itself.
        on_failure: ``"raise"``, ``"rebuild"``, ``"skip"`` or a `FailurePolicy`.
        memory: How much of it may be used: ``"auto"`` for what the container or machine has, bytes
            (``"4GiB"``), a share of what there is (``0.8``), ``"off"``, or a `MemoryPolicy`. When it gets short,
            fewer batches are loaded ahead, then fewer at once, then smaller ones.
        shard: Not available yet.
        isolation: ``"thread"``; ``"process"`` is not available yet.
        clone_dataset: True gives every worker its own deep copy of the dataset, a callable from worker id to
            dataset whatever it returns; both run in the worker's thread.

    Attributes:
        seed: The seed in use.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of range, or two exclude each other. Both name the argument, show the
            value and say what is allowed.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int | str = "auto",
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | str | None = 2,
        persistent_workers: bool = True,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        transform: Any = None,
        output: str = "auto",
        on_failure: FailurePolicy | str = "raise",
        memory: MemoryPolicy | str | float = "auto",
        shard: Any = None,
        isolation: str = "thread",
        clone_dataset: bool | Callable[[int], Any] = False,
    ) -> None:
        check_dataset(dataset)
        for name, value in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
            options.check_callable(name, value)
        options.check_clone(clone_dataset)
        options.check_choice("output", output, ("auto", "numpy", "torch"), later=("jax",))
        options.check_choice("isolation", isolation, ("thread",), later=("process",))
        options.refuse_for_now("shard", shard, (None,))
        options.warn_meaningless(multiprocessing_context, pin_memory_device)

        self.dataset = dataset
        self._setting = Setting(
            options.resolve_workers(num_workers), options.resolve_prefetch(prefetch_factor)
        )
        self._autotune = options.resolve_autotune(
            num_workers,
            prefetch_factor,
            self._setting,
            starts_up=worker_init_fn is not None or clone_dataset is not False,
        )
        self.pin_memory = as_flag("pin_memory", pin_memory)
        self.timeout = as_seconds("timeout", timeout)
        self.persistent_workers = as_flag("persistent_workers", persistent_workers)
        self.in_order = as_flag("in_order", in_order)
        self.failure_policy = FailurePolicy.of(on_failure)
        self.memory_policy = MemoryPolicy.of(memory)
        self.seed, self._seed_given = options.resolve_seed(seed, generator)
        self._source: TicketSource = resolve_source(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            drop_last=drop_last,
            seed=self.seed,
        )
        self.batch_size = self._source.batch_size
        self.drop_last = self._source.drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.worker_init_fn = worker_init_fn
        self.clone_dataset = clone_dataset
        self.generator = generator
        self.multiprocessing_context = multiprocessing_context
        self.pin_memory_device = pin_memory_device
        self.collate_fn = options.resolve_collate(collate_fn, single=self._source.single)
        self.shuffle = shuffle
        self.output = output
        self.transform = transform
        self._augment = options.resolve_transform(transform, dataset)
        self._staff = Staff(
            dataset,
            Recipe(
                self.collate_fn,
                options.resolve_output(output, collate_fn, pin_memory=self.pin_memory),
                single=self._source.single,
                augment=self._augment,
            ),
            self._setting.num_workers,
            worker_init_fn,
            clone_dataset,
            self.timeout,
            self.persistent_workers,
            self._autotune,
        )
        self._provisions = options.resolve_memory(
            self.memory_policy, self._source, self.collate_fn, self._augment
        )
        self._lock = threading.Lock()
        self._epochs = Epochs()
        self._life = Life(snapshot)
        self._skipped: list[SkipRecord] = []
        self._death: DeadWorkerError | None = None
        self._iterators: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()
        renew_lock_after_fork(self)
        self._settle()

    # Iterating

    def __iter__(self) -> LoaderIterator:
        """Start a new, complete epoch (or the rest of one, after ``load_state_dict``).

        Raises:
            DeadWorkerError: A worker died earlier and the loader was not rebuilt since.
        """
        if sys.is_finalizing():
            raise LoaderError("Python is shutting down, and no threads can be started any more")
        if self._death is not None:
            raise copy_without_traceback(self._death)
        with self._lock:
            beginning = self._epochs.begin(self._source.nothing_received())
        try:
            return self._start(beginning)
        except BaseException:
            # A sampler that raises, or a state that does not fit it, must not cost the epoch or the state.
            with self._lock:
                self._epochs.take_back(beginning)
            raise

    def _start(self, beginning: Beginning) -> LoaderIterator:
        warn_of_reenabled_gil()
        epoch, received = beginning.epoch, beginning.received
        tickets = self._source.open(beginning)
        ledger = Ledger(
            self.failure_policy,
            epoch=epoch,
            received=received,
            in_order=self.in_order,
            total=tickets.total,
            records=self._skipped,
        )
        setting = self._setting if self._autotune is None else self._autotune.setting
        workers, capacity = setting.num_workers, capacity_of(setting)
        provisions = self._provisions
        run = EpochRun(
            ledger,
            self.failure_policy,
            seed=self.seed,
            epoch=epoch,
            setting=setting,
            rations=None if provisions is None else provisions.rations(workers=workers, capacity=capacity),
        )
        current = Current(beginning, run)
        self._life.begin(run)
        reading = None if tickets.stream is None else Reading(tickets.stream, run, self.failure_policy)
        began = perf_counter()
        if isinstance(self.collate_fn, DefaultCollate):
            self.collate_fn.warm_up()  # here, so that no worker and no timeout waits for a compiler
        if self._augment is not None:
            self._augment.prepare(options.table_of(self.dataset))
        run.times.prepare(began)
        crew = self._staff.crew(run, reading)
        iterator = LoaderIterator(
            run,
            crew,
            tickets,
            timeout=self.timeout,
            on_end=lambda ending: self._on_end(current, crew, ending),
        )
        self._iterators.add(iterator)
        current.iterator = weakref.ref(iterator)
        self._epochs.current = current
        return iterator

    def _on_end(self, current: Current, crew: InlineCrew | ThreadCrew, ending: Any) -> bool:
        """Draw the loader's own consequences; True when it keeps the crew's threads for the next epoch.

        Runs in finalisers too: plain stores only.
        """
        if ending is LoaderIterator.COMPLETE:
            current.finished = True
            return self._staff.keep(crew)
        if isinstance(ending, DeadWorkerError):
            self._death = copy_without_traceback(ending)
        return False

    def __len__(self) -> int:
        """The nominal number of batches of an epoch.

        Raises:
            TypeError: The dataset or the sampler has no length.
        """
        return self._source.nominal_batches()

    # Position

    def set_epoch(self, epoch: int) -> None:
        """Let the next ``iter()`` be this epoch; the one after it is ``epoch + 1``.

        A sampler's own ``set_epoch`` is called with it when the epoch begins. A loaded state for the same epoch
        stays in force.
        """
        epoch = as_count("epoch", epoch, least=0)
        with self._lock:
            self._epochs.choose(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of what the consumer has received, as a dict of JSON types.

        It does not depend on the number of workers, prefetching or the batch size. Taken inside an epoch, it
        leads to the rest of that epoch; taken after its end, to the next epoch.
        """
        source = self._source
        with self._lock:
            state = self._epochs.state(
                sampler=source.kind, length=source.length, seed=self.seed, nothing=source.nothing_received()
            )
        return state.to_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next ``iter()`` go on where ``state_dict`` was taken.

        Raises:
            ResumeError: The state is damaged, or dataset length, seed, shuffle or kind of sampler differ.
        """
        state = LoaderState.from_dict(state_dict)
        self._source.check_resume(state, self.seed if self._seed_given else None)
        with self._lock:
            self._source = self._source.with_seed(state.seed)
            object.__setattr__(self, "seed", state.seed)
            self._epochs.load(state)

    # Health

    @property
    def num_workers(self) -> int:
        """The number of workers in use."""
        return (self._setting if self._autotune is None else self._autotune.setting).num_workers

    @property
    def prefetch_factor(self) -> int:
        """Batches loaded ahead per worker."""
        return (self._setting if self._autotune is None else self._autotune.setting).prefetch_factor

    def rebuild(self) -> None:
        """Bring a loader back whose worker died: the next ``iter()`` starts with fresh workers.

        That ``iter()`` is a new epoch. To go on in the epoch that failed, take ``state_dict()`` and give it to
        ``load_state_dict`` as well.
        """
        self._staff.stop()
        self._death = None

    @property
    def skipped(self) -> tuple[SkipRecord, ...]:
        """Records of all samples that were left out, in order of delivery."""
        return tuple(self._skipped)

    def statistics(self) -> Statistics:
        """A snapshot of the present epoch, or of the last one."""
        current = self._epochs.current
        if current is None:
            return Statistics(num_workers=self.num_workers, prefetch_factor=self.prefetch_factor)
        iterator = None if current.iterator is None else current.iterator()
        return snapshot(current.run) if iterator is None else iterator.statistics()

    @property
    def totals(self) -> Totals:
        """Sums over all epochs that were begun, which never fall."""
        return self._life.totals

    def progress(self, description: str | None = None, **options: Any) -> Iterable[Any]:
        """Return the loader behind a progress bar; the same as `nogil_loader.progress`.

        Args:
            description: What stands before the bar; None for the epoch's number.
            options: See there.
        """
        # By name, since what looks at loaders stands above them.
        shown: Iterable[Any] = import_module("nogil_loader.observe.progress").progress(
            self, description, **options
        )
        return shown

    def close(self) -> None:
        """End all threads of the loader and close its iterators; bounded in time, idempotent.

        Buffers of batches that nobody uses any more, which were kept for the next ones, are given back.
        The loader can be iterated again afterwards, a dead one after ``rebuild``. The traceback of an error that
        was raised loses its local variables, which hold samples.
        """
        for iterator in list(self._iterators):
            iterator.close()
        if self._death is not None:
            clear_locals(self._death.__cause__)
        self._staff.close(CLOSE_SECONDS)
        pool.trim()

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Only signals: this may run on any thread, in the middle of anything.
        staff = getattr(self, "_staff", None)
        if staff is not None:
            staff.stop()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({type(self.dataset).__name__}, batch_size={self.batch_size}, "
            f"num_workers={self.num_workers}, seed={self.seed}, on_failure={self.failure_policy})"
        )
