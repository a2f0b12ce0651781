"""Which setting is recommended."""

from __future__ import annotations

from nogil_loader.bench.choice import by_workers, describe_peers, describe_scaling, recommend
from tests.bench.made_up import failed_of, setting_of


def test_the_fewest_workers_within_the_noise_of_the_best_are_enough() -> None:
    settings = [setting_of(1, 100.0), setting_of(2, 198.0), setting_of(4, 200.0)]
    assert recommend(settings) == 1


def test_what_is_slower_than_the_noise_is_not() -> None:
    settings = [setting_of(1, 100.0), setting_of(2, 192.0), setting_of(4, 200.0)]
    assert recommend(settings) == 2


def test_a_wide_spread_lets_fewer_workers_do_but_does_not_give_more_than_a_tenth_away() -> None:
    best = setting_of(4, 0.0, rates=(60.0, 200.0, 210.0))
    assert recommend([setting_of(2, 185.0), best]) == 0
    assert recommend([setting_of(2, 175.0), best]) == 1


def test_no_workers_are_for_where_all_others_are_slower() -> None:
    assert recommend([setting_of(0, 100.0), setting_of(1, 98.0), setting_of(2, 101.0)]) == 1
    assert recommend([setting_of(0, 100.0), setting_of(1, 60.0)]) == 0


def test_of_equals_the_one_that_loads_less_ahead_is_taken() -> None:
    settings = [setting_of(2, 100.0, prefetch_factor=4), setting_of(2, 100.0, prefetch_factor=2)]
    assert recommend(settings) == 1


def test_another_batch_size_is_no_way_to_save_workers() -> None:
    settings = [setting_of(1, 99.0, batch_size=16), setting_of(2, 100.0, batch_size=64)]
    assert recommend(settings) == 1


def test_a_setting_that_failed_is_not_recommended() -> None:
    assert recommend([failed_of(1), setting_of(2, 1.0)]) == 1
    assert recommend([failed_of(1)]) is None


def test_settings_that_differ_in_workers_alone_are_set_side_by_side() -> None:
    zero, one, two = setting_of(0, 1.0), setting_of(1, 1.0), setting_of(2, 1.0, prefetch_factor=4)
    others = [setting_of(1, 1.0, batch_size=8), setting_of(1, 1.0, loader="torch"), failed_of(4)]
    four = setting_of(4, 1.0)
    settings = [two, four, one, zero, *others]
    assert by_workers(settings, one) == [zero, one, four]
    assert by_workers(settings, two) == [zero, two]
    assert by_workers(settings, zero) == [zero, two]


def test_scaling_is_told_in_sentences() -> None:
    row = [setting_of(workers, rate) for workers, rate in [(0, 90.0), (1, 100.0), (2, 190.0), (4, 200.0)]]
    first = "2 workers are 1.9 times as fast as 1."
    assert describe_scaling(row, row[2], more=True) == ["4 workers are 2.0 times as fast as 1."]
    assert describe_scaling(row[:3], row[2], more=True) == [
        first,
        "The largest number of workers that was tried is the fastest: try more, such as --workers 2,4,8.",
    ]
    assert describe_scaling(row[:3], row[2], more=False) == [first]
    assert describe_scaling(row[:3], row[0], more=True) == [first]
    eight = setting_of(8, 10.0)
    assert describe_scaling([row[3], eight], row[3], more=True) == ["More workers than 4 are hardly faster."]
    assert describe_scaling(row[:2], row[1], more=True) == []


def test_peers_are_compared_at_their_best_round_by_round() -> None:
    ours = [setting_of(1, 50.0), setting_of(4, 0.0, rates=(100.0, 60.0, 120.0))]
    torch = [
        setting_of(1, 10.0, loader="torch"),
        setting_of(2, 0.0, loader="torch", rates=(50.0, 40.0, 50.0)),
        failed_of(4, loader="torch"),
    ]
    (told,) = describe_peers(ours, [*torch, failed_of(1, loader="spdl")])
    assert "(workers: 4) is 2.00 times as fast as torch at its best (workers: 2), 1.50 to 2.40 over" in told
    assert describe_peers([failed_of(1)], torch) == []
