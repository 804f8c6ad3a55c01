"""A page of the server at a port: its topic, and messages to its peers through the relay."""

import asyncio
import json
import struct

from websockets.asyncio.client import connect

PEER_BYTES = 8
SEGMENT_HEAD = struct.Struct(">III")
PUSH, REPLY = 0, 1
JOIN_REF = "1"
REPLY_SECONDS = 15


class Page:
    """Joins the page; `on_signal` and `on_message` get what another peer sends."""

    def __init__(self, on_signal, on_message):
        self.on_signal = on_signal
        self.on_message = on_message
        self._replies = {}
        self._ref = 1
        self._messages = {}

    async def join(self, port, cid):
        self.topic = f"page:{cid}"
        self._socket = await connect(f"ws://127.0.0.1:{port}/socket/websocket?vsn=2.0.0", max_size=None)
        self._reading = asyncio.create_task(self._read())
        return await self._reply(lambda ref: json.dumps([JOIN_REF, ref, self.topic, "phx_join", {"have": "none"}]))

    async def leave(self):
        await self._socket.close()
        await self._reading

    async def signal(self, peer, signal):
        await self._push("signal", bytes.fromhex(peer) + json.dumps(signal).encode())

    async def relay(self, peer, message_id, message):
        """Sends a message that fits into one segment."""
        segment = SEGMENT_HEAD.pack(message_id, 0, len(message)) + message
        await self._push("relay", bytes.fromhex(peer) + segment)

    async def _push(self, event, data):
        def frame(ref):
            texts = [text.encode() for text in (JOIN_REF, ref, self.topic, event)]
            return bytes([PUSH, *map(len, texts)]) + b"".join(texts) + data

        await self._reply(frame)

    async def _reply(self, frame):
        """Sends a frame with a new ref; returns the response to it."""
        ref = str(self._ref)
        self._ref += 1
        replied = self._replies[ref] = asyncio.get_running_loop().create_future()
        await self._socket.send(frame(ref))
        payload = await asyncio.wait_for(replied, REPLY_SECONDS)
        if payload["status"] != "ok":
            raise RuntimeError(f"the server refused: {payload}")
        return payload["response"]

    async def _read(self):
        async for frame in self._socket:
            if isinstance(frame, str):
                _, ref, _, event, payload = json.loads(frame)
                if event == "phx_reply" and ref in self._replies:
                    self._replies.pop(ref).set_result(payload)
            elif frame[0] == PUSH:
                self._read_push(frame)

    def _read_push(self, frame):
        lengths = frame[1:4]
        start = 4
        texts = []
        for length in lengths:
            texts.append(frame[start : start + length].decode())
            start += length
        event, data = texts[2], frame[start:]
        peer, content = data[:PEER_BYTES].hex(), data[PEER_BYTES:]
        if event == "signal":
            self.on_signal(peer, json.loads(content))
        elif event == "relay":
            message = self.add_segment(peer, content)
            if message is not None:
                self.on_message(peer, message[1])

    def add_segment(self, peer, segment):
        """The id and the bytes of the message that this segment completes."""
        message_id, offset, total = SEGMENT_HEAD.unpack_from(segment)
        part = segment[SEGMENT_HEAD.size :]
        message, missing = self._messages.get((peer, message_id)) or (bytearray(total), total)
        message[offset : offset + len(part)] = part
        self._messages[peer, message_id] = (message, missing - len(part))
        if missing > len(part):
            return None
        del self._messages[peer, message_id]
        return message_id, bytes(message)
