"""Closed forms of pipeline schedules against schedules that are played."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.training import SCHEDULES, Schedule
from pimloom.cycle_sim.schedule import in_flight, is_regular, slots
from tests.naive_pipeline import interleaved, most_held, one_forward_one_backward, play

TIMES = st.integers(1, 9)


def orders_of(stages, micro_batches, chunks):
    if chunks == 1:
        return [one_forward_one_backward(s, stages, micro_batches) for s in range(stages)]
    return [interleaved(s, stages, micro_batches, chunks) for s in range(stages)]


@st.composite
def regular(draw):
    """Stages, micro-batches and chunks that interleave."""
    stages, chunks = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    if chunks == 1:
        return stages, draw(st.integers(1, 14)), 1
    return stages, draw(st.sampled_from([*range(1, stages + 1), 2 * stages, 3 * stages])), chunks


@given(shape=regular(), forward=TIMES, backward=TIMES, send=st.integers(0, 5))
def test_closed_forms_are_what_the_schedule_takes(shape, forward, backward, send):
    stages, m, chunks = shape
    played = play(orders_of(*shape), chunks, forward, backward, send, blocks=True)
    each = chunks * (forward + backward + 2 * send)  # a pass of a micro-batch through a stage
    assert slots("1f1b" if chunks == 1 else "interleaved", stages, m, chunks) * each == pytest.approx(played, rel=1e-12)


@given(shape=regular(), forward=TIMES, backward=TIMES, send=st.integers(0, 5))
def test_messages_beside_the_work_take_no_longer(shape, forward, backward, send):
    stages, m, chunks = shape
    schedule: Schedule = "1f1b" if chunks == 1 else "interleaved"
    played = play(orders_of(*shape), chunks, forward, backward, send, blocks=False)
    waiting = slots(schedule, stages, m, chunks)
    assert waiting * chunks * (forward + backward) <= played * (1 + 1e-12)
    assert played <= waiting * chunks * (forward + backward + 2 * send) * (1 + 1e-12)


@given(shape=regular())
def test_the_first_stage_holds_most_and_as_many_as_the_closed_form_says(shape):
    stages, m, chunks = shape
    held = [most_held(order) for order in orders_of(*shape)]
    assert max(held) == held[0] == pytest.approx(chunks * in_flight(stages, m, chunks))


def test_literal_values():
    assert slots("1f1b", 64, 8) == 71
    assert slots("1f1b", 1, 5) == 5
    assert slots("interleaved", 4, 8, 2) == 9.5  # m + (PP - 1) / v
    assert slots("interleaved", 64, 8, 2) == 67.5  # PP + (m - 1) / v: a micro-batch passes all stages
    assert slots("interleaved-ideal", 64, 8, 2) == 39.5  # less than that, which none can meet
    assert [in_flight(4, 8), in_flight(4, 2), in_flight(4, 8, 2)] == [4, 2, 5.5]


@given(st.integers(2, 20), st.integers(1, 60), st.integers(2, 8))
def test_more_chunks_never_take_longer_and_the_ideal_least(stages, m, chunks):
    ideal = slots("interleaved-ideal", stages, m, chunks)
    assert m < ideal < slots("1f1b", stages, m) or m == ideal
    if is_regular("interleaved", stages, m, chunks):
        assert ideal <= slots("interleaved", stages, m, chunks) <= slots("1f1b", stages, m)
        assert slots("interleaved", stages, m, chunks) >= stages


@pytest.mark.parametrize(
    ("schedule", "stages", "m", "chunks"), [("1f1b", 4, 8, 2), ("interleaved", 4, 6, 2), ("interleaved", 1, 4, 2)]
)
def test_what_has_no_closed_form_is_refused(schedule, stages, m, chunks):
    assert not is_regular(schedule, stages, m, chunks)
    with pytest.raises(ValueError, match="no closed form"):
        slots(schedule, stages, m, chunks)


def test_every_schedule_is_1f1b_with_one_chunk():
    assert {slots(schedule, 8, 20) for schedule in SCHEDULES} == {27}  # type: ignore[arg-type]
