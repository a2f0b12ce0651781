from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.plan.mixing import GOLDEN, MASK64, derive_keys, mix, mix_array

words = st.integers(0, MASK64)


def test_mix_is_the_finaliser_of_splitmix64() -> None:
    # The published first outputs of SplitMix64 for the seeds 0 and 1234567.
    assert [mix(GOLDEN), mix(2 * GOLDEN)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    assert mix(1234567 + GOLDEN) == 6457827717110365317


@given(st.lists(words, max_size=20))
def test_mixing_an_array_is_mixing_its_elements(values: list[int]) -> None:
    array = np.array(values, dtype=np.uint64)
    assert mix_array(array).tolist() == [mix(value) for value in values]
    assert array.tolist() == values


def test_a_flipped_input_bit_flips_each_output_bit_about_half_of_the_time() -> None:
    values = mix_array(np.arange(4096, dtype=np.uint64))
    for bit in range(64):
        changed = mix_array(values) ^ mix_array(values ^ np.uint64(1 << bit))
        flips = [int(((changed >> np.uint64(out)) & np.uint64(1)).sum()) for out in range(64)]
        # 2048 expected, standard deviation 32: five of them on each side.
        assert min(flips) > 2048 - 160
        assert max(flips) < 2048 + 160


def test_keys_of_neighbouring_seeds_and_epochs_have_nothing_in_common() -> None:
    keys = [
        key
        for seed in [*range(20), MASK64]
        for epoch in [*range(20), MASK64]
        for key in derive_keys(seed, epoch, 16)
    ]
    assert len(set(keys)) == len(keys)


def test_seed_and_epoch_do_not_stand_in_for_each_other() -> None:
    assert derive_keys(3, 5, 4) != derive_keys(5, 3, 4)
    assert derive_keys(3, 5, 4) != derive_keys(4, 4, 4)
