"""One open stream: a client asks, is told its position, sees iterates, and gets a verdict.

    client  text    {"equation": "helmholtz", "seed": 3, "id": 7, "compare": ["fno"], …}
            binary  a frame (see `fields`) whose header is such an ask and whose one field, called
                    "input", is the field to be solved for
            text    {"cancel": true}
    server  text    {"type": "waiting", "id", "position"}
                    {"type": "begun", "id", "method", "label", "grid", "constants", "others"}
            binary  the input as a frame of index −1, then the iterates
            text    {"type": "done", "id", "verdict", "curves"}
                    {"type": "curve", "id", "method", "label", "verdict", "curves"}
                    {"type": "refused", "id", "field", "expected", "got", "message"}
                    {"type": "finished", "id"}

A new ask takes the place of the one before: that is how a slider is dragged.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.asks import StreamAsk, Task, parse
from neuralsolver.serve.fields import decode_frame, encode_frame, shown
from neuralsolver.serve.methods import compared, comparisons, watched
from neuralsolver.serve.queue import LineFull
from neuralsolver.serve.service import Service
from neuralsolver.serve.stream import Mailbox

STALLED = 4408
"""Close code for a client that does not read."""


async def converse(websocket: WebSocket, service: Service) -> None:
    """Serve one stream until its client leaves."""
    await websocket.accept()
    mailbox = Mailbox(service.metrics)
    pump = asyncio.create_task(_pump(websocket, mailbox, service))
    answer: asyncio.Task[None] | None = None
    try:
        while not pump.done():
            receive = asyncio.create_task(websocket.receive())
            await asyncio.wait({receive, pump}, return_when=asyncio.FIRST_COMPLETED)
            if not receive.done():
                await _cancel(receive)
                break
            message = receive.result()
            if message["type"] == "websocket.disconnect":
                break
            await _cancel(answer)
            answer = asyncio.create_task(_answer(message, mailbox, service))
    finally:
        await _cancel(answer)
        await _cancel(pump)


async def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await task


async def _pump(websocket: WebSocket, mailbox: Mailbox, service: Service) -> None:
    """Send what is in the mailbox at the pace of the client."""
    while True:
        item = await mailbox.take()
        send = websocket.send_bytes(item) if isinstance(item, bytes) else websocket.send_text(item)
        try:
            await asyncio.wait_for(send, service.limits.stall_seconds)
        except asyncio.TimeoutError:
            service.metrics.refused["reading"] += 1
            return
        service.metrics.frames_sent += isinstance(item, bytes)


async def _answer(message: Any, mailbox: Mailbox, service: Service) -> None:
    """Everything one ask leads to."""
    number = 0
    try:
        ask, field = _read(message)
        if ask is None:
            return
        number = ask.id
        task = await service.task(ask, field)
        await _show(task, ask, mailbox, service)
    except InvalidInput as error:
        service.metrics.refused[error.field] += 1
        mailbox.say(
            "refused",
            id=number,
            field=error.field,
            expected=error.expected,
            got=str(error.got),
            message=str(error),
        )
    except LineFull as error:
        service.metrics.refused["queue"] += 1
        mailbox.say("refused", id=number, field="queue", message=str(error))
    mailbox.say("finished", id=number)


def _read(message: Any) -> tuple[StreamAsk | None, np.ndarray[Any, Any] | None]:
    """An ask, with the field of a binary message; nothing where only a cancel was asked for."""
    binary = message.get("bytes")
    if binary is None:
        text = message.get("text") or ""
        with suppress(ValueError, RecursionError):
            if json.loads(text) == {"cancel": True}:
                return None, None
        return parse(StreamAsk, text), None
    try:
        header, fields = decode_frame(binary)
        field = fields["input"]
        header.pop("fields")
    except Exception as error:  # whatever bytes that are no frame lead to
        expected = "a frame with a field called input"
        raise InvalidInput("message", expected, repr(error)[:80]) from None
    return parse(StreamAsk, json.dumps(header)), field.astype(np.float64)


async def _show(task: Task, ask: StreamAsk, mailbox: Mailbox, service: Service) -> None:
    """The solve that is watched, then the curves of the others."""
    number, models = ask.id, service.models
    method = watched(models, task)
    others = comparisons(models, task)
    problem = task.problem

    def notice(position: int) -> None:
        mailbox.say("waiting", id=number, position=position)

    mailbox.say(
        "begun",
        id=number,
        method=method.key,
        label=method.label,
        grid=problem.resolution,
        trained_grid=models.main(task.entry.name).resolution,
        constants=problem.equation.constants(),
        others=others,
    )
    drawn = {"input": shown(problem.inputs[0, 0].numpy())}
    mailbox.show(encode_frame({"id": number, "index": -1}, drawn))
    outcome, judged = await service.solve(
        task, method, number=number, mailbox=mailbox, notice=notice
    )
    mailbox.say("done", id=number, verdict=judged, curves=outcome.curves)
    for key in others if ask.compare == ["all"] else ask.compare:
        other = compared(models, task, key)
        outcome, judged = await service.solve(task, other, notice=notice)
        mailbox.say(
            "curve",
            id=number,
            method=other.key,
            label=other.label,
            verdict=judged,
            curves=outcome.curves,
        )
