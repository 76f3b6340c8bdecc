"""One open stream: a client asks, is told its position, sees iterates, and gets a verdict.

    client  text    {"equation": "helmholtz", "seed": 3, "id": 7, "compare": ["fno"], …}
            binary  a frame (see `frames`) whose header is such a request and whose one field,
                    called "input", is the field to be solved for
            text    {"cancel": true}
    server  text    {"type": "waiting", "id", "position"}
                    {"type": "begun", "id", "method", "label", "step", "grid", "constants",
                     "others"}
            binary  the input as a frame of index −1, then the iterates
            text    {"type": "done", "id", "verdict", "curves"}
                    {"type": "curve", "id", "method", "label", "verdict", "curves"}
                    {"type": "refused", "id", "field", "expected", "got", "message"}
                    {"type": "finished", "id"}

A new request takes the place of the one before: that is how a slider is dragged. A slow client sees
fewer iterates, but always the newest, and all words.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from neuralsolver.errors import InvalidInput
from neuralsolver.serve.frames import decode_frame, encode_frame, shown
from neuralsolver.serve.gateway import client_of
from neuralsolver.serve.refusals import refusal
from neuralsolver.serve.requests import SolveJob, StreamRequest, make_job, parse
from neuralsolver.serve.service import Service, Telemetry
from neuralsolver.serve.solver_choices import compared, step_of, watched

IDLE, TRY_AGAIN = 1000, 1013
"""Close codes: an idle stream that makes room or never asked, and all streams taken."""

LAST_WORDS_SECONDS = 1.0
"""How long a server that stops waits until its words have been sent."""
ROOM = 24
"""Frames that wait for a client; at 64 × 64 points that is 1.5 million bytes."""


class Mailbox:
    """What waits to be sent: filled from any thread, which never waits, emptied by the event loop.

    Of frames only the newest are kept, as many as there is room for.
    """

    def __init__(self, telemetry: Telemetry, room: int = ROOM) -> None:
        self.telemetry, self.room = telemetry, room
        self.waiting: deque[str | bytes] = deque()
        self.frames = 0
        self.lock = threading.Lock()
        self.loop = asyncio.get_running_loop()
        self.filled = asyncio.Event()

    def say(self, kind: str, **content: Any) -> None:
        """Add a message in words."""
        self.show(json.dumps({"type": kind, **content}, allow_nan=False))

    def show(self, item: str | bytes) -> None:
        """Add a message or a frame, which takes the place of the oldest where there is no room."""
        with self.lock:
            if isinstance(item, bytes):
                if self.frames == self.room:
                    self.waiting.remove(next(i for i in self.waiting if isinstance(i, bytes)))
                    self.telemetry.frames_skipped.inc()
                else:
                    self.frames += 1
            self.waiting.append(item)
        self.loop.call_soon_threadsafe(self.filled.set)

    async def take(self) -> str | bytes:
        """The next message."""
        while True:
            with self.lock:
                if self.waiting:
                    item = self.waiting.popleft()
                    self.frames -= isinstance(item, bytes)
                    return item
                self.filled.clear()
            await self.filled.wait()


@dataclass(eq=False)
class Session:
    """One open stream."""

    websocket: WebSocket
    client: str
    mailbox: Mailbox
    sending: bool = False
    answer: asyncio.Task[None] | None = None
    since: float = field(default_factory=time.monotonic)
    """When it last asked for something."""
    dismissed: bool = False

    @property
    def busy(self) -> bool:
        """Whether it waits for an answer."""
        return self.answer is not None and not self.answer.done()

    async def dismiss(self, reason: str) -> None:
        """Close it; the page opens another one when it needs one."""
        self.dismissed = True
        with suppress(RuntimeError, WebSocketDisconnect):
            await self.websocket.close(IDLE, reason)


class Streams:
    """All open streams; the one that has been idle longest makes room for a new one."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.open: set[Session] = set()
        service.telemetry.streams.set_function(lambda: len(self.open))

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one stream until its client leaves."""
        await websocket.accept()
        mailbox = Mailbox(self.service.telemetry)
        session = Session(websocket, client_of(websocket.scope), mailbox)
        if not await self._make_room(session):
            self.service.telemetry.refused("connections")
            await websocket.close(TRY_AGAIN, "too many connections; try again soon")
            return
        self.open.add(session)
        try:
            await _converse(session, self.service)
        finally:
            self.open.discard(session)

    async def end(self, leave: Callable[[], object]) -> None:
        """Stop all work, and `leave` when every client that reads has been told."""
        self.service.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                while any(each.busy or each.sending or each.mailbox.waiting for each in self.open):
                    await asyncio.sleep(0.01)
        leave()

    async def _make_room(self, new: Session) -> bool:
        settings = self.service.settings
        own = [each for each in self.open if each.client == new.client]
        bounds = (settings.connections_per_client, settings.connections)
        for crowd, most in zip((own, self.open), bounds, strict=True):
            if len(crowd) < most:
                continue
            idle = [each for each in crowd if not each.busy]
            if not idle:
                return False
            oldest = min(idle, key=lambda each: each.since)
            self.open.discard(oldest)
            await oldest.dismiss("idle, and others want to come in")
        return True


async def _converse(session: Session, service: Service) -> None:
    websocket, mailbox = session.websocket, session.mailbox
    pump = asyncio.create_task(_pump(session, service))
    limit: float | None = service.settings.first_message_seconds
    try:
        while not pump.done() and not session.dismissed:
            receive = asyncio.create_task(websocket.receive())
            await asyncio.wait({receive, pump}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not receive.done():
                await _cancel(receive)
                if not pump.done():
                    service.telemetry.refused("time")
                    await session.dismiss("nothing was asked for")
                break
            message = receive.result()
            if message["type"] == "websocket.disconnect":
                break
            limit, session.since = None, time.monotonic()
            await _cancel(session.answer)
            session.answer = asyncio.create_task(_answer(message, mailbox, service))
    finally:
        await _cancel(session.answer)
        await _cancel(pump)


async def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await task


async def _pump(session: Session, service: Service) -> None:
    """Send what is in the mailbox at the pace of the client."""
    websocket = session.websocket
    while True:
        session.sending = False
        item = await session.mailbox.take()
        session.sending = True
        send = websocket.send_bytes(item) if isinstance(item, bytes) else websocket.send_text(item)
        try:
            await asyncio.wait_for(send, service.settings.stall_seconds)
        except TimeoutError:
            service.telemetry.refused("reading")
            return
        except (WebSocketDisconnect, RuntimeError):  # the client has left
            return
        if isinstance(item, bytes):
            service.telemetry.frames_sent.inc()


async def _answer(message: Any, mailbox: Mailbox, service: Service) -> None:
    """Everything one request leads to; whatever goes wrong is said."""
    number = 0
    try:
        request, values = await service.read(_read, message, service.settings.grid)
        if request is None:
            return
        number = request.id
        job = await service.read(make_job, request, service.models, service.settings, values)
        await _show(job, request, mailbox, service)
    except Exception as error:
        refused = refusal(error)
        service.telemetry.refused(refused.field)
        mailbox.say("refused", id=number, **refused.content)
    mailbox.say("finished", id=number)


def _read(message: Any, rows: int) -> tuple[StreamRequest | None, np.ndarray[Any, Any] | None]:
    """A request, with the field of a binary message; nothing where a cancel was asked for."""
    binary = message.get("bytes")
    if binary is None:
        text = message.get("text") or ""
        if text[:64].replace(" ", "") == '{"cancel":true}':
            return None, None
        return parse(StreamRequest, text, rows), None
    try:
        header, fields = decode_frame(binary)
        values = fields["input"]
        header.pop("fields")
    except Exception as error:  # whatever bytes that are no frame lead to
        expected = "a frame with a field called input"
        raise InvalidInput("message", expected, repr(error)[:80]) from None
    return parse(StreamRequest, json.dumps(header)), values.astype(np.float64)


async def _show(job: SolveJob, request: StreamRequest, mailbox: Mailbox, service: Service) -> None:
    """The solve that is watched, then the curves of the others."""
    number, problem = request.id, job.problem
    method, others = watched(service.models, job), compared(service.models, job)
    wanted = list(others) if request.compare == ["all"] else request.compare
    if unknown := set(wanted) - set(others):
        expected = f"one of {', '.join(others)} for this problem"
        raise InvalidInput("compare", expected, unknown.pop())

    def notice(position: int) -> None:
        mailbox.say("waiting", id=number, position=position)

    def show(numbers: dict[str, Any], fields: dict[str, Any]) -> None:
        mailbox.show(encode_frame({"id": number, **numbers}, fields))

    mailbox.say(
        "begun",
        id=number,
        method=method.key,
        label=method.label,
        step=await service.read(step_of, method, problem),
        grid=problem.resolution,
        constants=problem.equation.constants(),
        others=list(others),
    )
    show({"index": -1}, {"input": shown(problem.inputs[0, 0].numpy())})
    solve, judged = await service.solve(job, method, show, notice)
    mailbox.say("done", id=number, verdict=judged.model_dump(), curves=solve.curves)
    for other in (others[key] for key in wanted):
        solve, judged = await service.solve(job, other, notice=notice)
        named = {"id": number, "method": other.key, "label": other.label}
        mailbox.say("curve", **named, verdict=judged.model_dump(), curves=solve.curves)
