from __future__ import annotations

import asyncio

import pytest

from neuralsolver.serve.refusals import QueueFull
from neuralsolver.serve.service import Places, Telemetry
from neuralsolver.serve.stream import Mailbox


def test_places_are_given_in_order_of_arrival():
    async def scene() -> list[str]:
        places, order = Places(1, 5), []

        async def visitor(name: str) -> None:
            async with places.place(lambda position: order.append(f"{name} at {position}")):
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(visitor(name) for name in "abc"))
        assert places.running == 0
        return order

    assert asyncio.run(scene()) == ["a", "b at 1", "c at 2", "c at 1", "b", "c"]


def test_whoever_leaves_the_line_lets_the_others_move_up():
    async def scene() -> list[int]:
        places, positions = Places(1, 5), []
        async with places.place():
            impatient = asyncio.create_task(_hold(places))
            await asyncio.sleep(0)
            patient = asyncio.create_task(_hold(places, positions.append))
            await asyncio.sleep(0)
            impatient.cancel()
            await asyncio.sleep(0)
        await patient
        assert places.running == 0
        return positions

    assert asyncio.run(scene()) == [2, 1]


def test_a_full_line_sends_away():
    async def scene() -> None:
        places = Places(1, 1)
        async with places.place():
            waiting = asyncio.create_task(_hold(places))
            await asyncio.sleep(0)
            with pytest.raises(QueueFull, match="1 solves are waiting"):
                await _hold(places)
        await waiting

    asyncio.run(scene())


def test_a_place_that_comes_while_one_leaves_is_handed_on():
    async def scene() -> None:
        places = Places(1, 5)
        async with places.place():
            first, second = (asyncio.create_task(_hold(places)) for _ in range(2))
            await asyncio.sleep(0)
        # the turn of the first has come, but it has not seen it yet
        first.cancel()
        await second
        assert places.running == 0

    asyncio.run(scene())


def test_a_turn_is_not_given_to_one_that_has_just_been_cancelled():
    async def scene() -> None:
        places = Places(1, 5)
        async with places.place():
            gone, patient = (asyncio.create_task(_hold(places)) for _ in range(2))
            await asyncio.sleep(0)
            gone.cancel()
        await patient
        assert places.running == 0

    asyncio.run(scene())


async def _hold(places, notice=lambda position: None):
    async with places.place(notice):
        await asyncio.sleep(0)


def test_a_full_mailbox_drops_the_oldest_frames_and_no_words():
    async def scene() -> tuple[list[object], int]:
        telemetry = Telemetry()
        mailbox = Mailbox(telemetry, room=3)
        mailbox.say("begun")
        for frame in range(10):
            mailbox.show(bytes([frame]))
        mailbox.say("done")
        return [await mailbox.take() for _ in range(5)], telemetry.registry.get_sample_value(
            "ens_frames_skipped_total"
        )

    taken, skipped = asyncio.run(scene())
    assert taken == ['{"type": "begun"}', b"\x07", b"\x08", b"\x09", '{"type": "done"}']
    assert skipped == 7
