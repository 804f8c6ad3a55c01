"""A connection of the crate str0m, in the program at `PROGRAM`; str0m/src/main.rs has its commands and events."""

import asyncio
import base64
import json

LINE_BYTES_MAX = 1 << 20


class Connection:
    """`on_state` gets "open" and "close", and `on_frame` each frame that arrives."""

    has_stun = False
    can_restart = True
    PROGRAM = ""

    def __init__(self, _stun, on_state, on_frame):
        self._on_state = on_state
        self._on_frame = on_frame
        self._descriptions = asyncio.Queue()

    async def begin(self):
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(self.PROGRAM, stdin=pipe, stdout=pipe, limit=LINE_BYTES_MAX)
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for line in self._process.stdout:
            event = json.loads(line)
            if "sdp" in event:
                self._descriptions.put_nowait(event["sdp"])
            elif "state" in event:
                self._on_state(event["state"])
            else:
                self._on_frame(base64.b64decode(event["frame"]))

    def _command(self, **command):
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def offer(self, kind="call"):
        self._command(offer=kind)
        return await self._descriptions.get()

    async def restart(self):
        return await self.offer("restart")

    async def answer(self, offer):
        self._command(answer_to=offer)
        return await self._descriptions.get()

    async def accept(self, answer):
        self._command(answered=answer)

    async def add_candidate(self, candidate):
        self._command(candidate=candidate["candidate"])

    def send(self, frame):
        self._command(send=base64.b64encode(frame).decode())

    async def close(self):
        self._process.stdin.close()
        await self._process.wait()
        await self._reading
