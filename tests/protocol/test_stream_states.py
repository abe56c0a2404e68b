"""States of a stream and of its resumption."""

from __future__ import annotations

import pytest

from carrel.protocol.stream_states import (
    FOLLOWING,
    TRANSITIONS,
    Following,
    FollowStep,
    StreamConnection,
    StreamContent,
    StreamReplay,
    StreamStates,
    StreamStep,
)


def after(*steps, resumable=True):
    states = StreamStates(resumable=resumable)
    for step in steps:
        states.step(step)
    return states


def test_each_state_has_a_row():
    assert set(TRANSITIONS) == {*StreamConnection, *StreamContent, *StreamReplay}
    assert set(FOLLOWING) == set(Following)


def test_a_step_leads_to_a_state_of_the_same_kind():
    for state, row in TRANSITIONS.items():
        assert all(type(target) is type(state) for target in row.values())


def test_a_connection_is_detached_only_if_it_was_attached():
    for step in ((), (StreamStep.CLOSE,), (StreamStep.ATTACH, StreamStep.DETACH)):
        with pytest.raises(KeyError):
            after(*step, StreamStep.DETACH)


def test_a_stream_that_is_closed_before_its_first_connection_closes_that_one():
    states = after(StreamStep.CLOSE, StreamStep.ATTACH)
    assert states.closing
    states.step(StreamStep.DETACH)
    states.step(StreamStep.ATTACH)
    assert states.connection is StreamConnection.CONNECTED, "the client resumes it, and this connection stays"


def test_a_client_that_reconnects_before_its_connection_is_closed_keeps_the_new_one():
    assert not after(StreamStep.ATTACH, StreamStep.CLOSE, StreamStep.ATTACH).closing


def test_an_aborted_connection_stays_aborted_until_it_is_closed():
    states = after(StreamStep.ATTACH, StreamStep.ABORT, StreamStep.CLOSE, StreamStep.ATTACH)
    assert states.aborted
    states.step(StreamStep.DETACH)
    assert states.disconnected
    assert not states.aborted


def test_closing_a_stream_without_a_connection_changes_nothing():
    states = after(StreamStep.ATTACH, StreamStep.DETACH, StreamStep.CLOSE, StreamStep.ABORT, StreamStep.ATTACH)
    assert states.connection is StreamConnection.CONNECTED


def test_a_stream_is_only_for_replay_if_it_is_complete_disconnected_and_resumable():
    ended = StreamStep.ATTACH, StreamStep.COMPLETE, StreamStep.DETACH
    assert after(*ended).replay_only
    assert not after(*ended, resumable=False).replay_only
    assert not after(*ended[:2]).replay_only
    assert not after(ended[0], ended[2]).replay_only
    assert not after(*ended, StreamStep.DROP).replay_only
    assert after(*ended, StreamStep.DROP).dropped


@pytest.mark.parametrize(
    ("steps", "undisturbed"),
    [
        ((), True),
        ((StreamStep.ATTACH,), True),
        ((StreamStep.ATTACH, StreamStep.DETACH), True),
        ((StreamStep.CLOSE,), False),
        ((StreamStep.ATTACH, StreamStep.CLOSE), False),
        ((StreamStep.ATTACH, StreamStep.ABORT), False),
        ((StreamStep.ATTACH, StreamStep.COMPLETE), False),
        ((StreamStep.COMPLETE,), False),
    ],
    ids=str,
)
def test_a_stream_is_undisturbed_until_it_is_complete_or_its_connection_is_to_be_closed(steps, undisturbed):
    assert after(*steps).undisturbed is undisturbed


def test_a_stream_whose_writer_is_gone_is_complete_after_its_last_event():
    states = after(StreamStep.END)
    assert not states.complete
    states.step(StreamStep.COMPLETE)
    states.step(StreamStep.END)
    assert states.complete


def test_a_log_with_new_events_is_read_again_after_each_reading():
    state = Following.OPENING
    for step, expected in (
        (FollowStep.NOTICE, Following.OPENING_STALE),
        (FollowStep.READ, Following.READING),
        (FollowStep.NOTICE, Following.READING_STALE),
        (FollowStep.NOTICE, Following.READING_STALE),
        (FollowStep.READ, Following.READING),
        (FollowStep.READ, Following.UP_TO_DATE),
        (FollowStep.NOTICE, Following.READING),
        (FollowStep.FAIL, Following.UP_TO_DATE),
    ):
        state = FOLLOWING[state][step]
        assert state is expected
