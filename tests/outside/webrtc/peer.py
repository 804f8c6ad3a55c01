"""A stack of WebRTC and a browser's tab that shares a file: `peer.py PORT CID SHA256-OF-THE-FILE aiortc`, or the path of the
program of str0m instead of `aiortc`."""

import asyncio
import hashlib
import random
import struct
import sys

from bitswap import absent_in, blocks_in, cid_of, links_of, wants
from page import SEGMENT_HEAD, Page
from program import Heard, ask, case

PORT, CID, SHA256, STACK = sys.argv[1:]
if STACK == "aiortc":
    from aiortc_connection import Connection
else:
    from str0m_connection import Connection

    Connection.PROGRAM = STACK
ROOT = cid_of(CID)
FRAME_BYTES_MAX = 16 << 10
SEGMENT, READ = 0, 1
READ_FRAME = struct.Struct(">BI")
SECONDS = 60


class Peer:
    """A peer of the page, which talks to the tab through the relay and over a data channel."""

    async def enter(self):
        self.page = Page(self._handle_signal, lambda peer, message: self._handle_message(message))
        self.connection = None
        self.blocks, self.absent = {}, set()
        self.frame_sizes = []
        self.arrived, self.acknowledged = Heard(), Heard()
        self.states, self.offers, self.answers = Heard(), Heard(), Heard()
        self._next_message = random.randrange(1 << 31)
        self._signals = asyncio.Queue()
        joined = await self.page.join(PORT, CID)
        self.tab = joined["peers"][0]["peer"]
        self.stun = f"stun:127.0.0.1:{joined['stun']['port']}"
        self._processing = asyncio.create_task(self._process_signals())
        return self

    async def leave(self):
        await self.close()
        self._processing.cancel()
        await self.page.leave()

    async def close(self):
        if self.connection is not None:
            await self.connection.close()

    # Signals

    def _handle_signal(self, peer, signal):
        if peer == self.tab:
            self._signals.put_nowait(signal)

    async def _process_signals(self):
        """Takes the signals one after another, because each takes its time."""
        while True:
            signal = await self._signals.get()
            kind = signal["kind"]
            if kind == "offer":
                await self._connect(signal["call"])
                self.offers.put(signal["call"])
                await self._signal("answer", await self.connection.answer(signal["sdp"]))
            elif kind == "answer" and signal["call"] == self.call:
                await self.connection.accept(signal["sdp"])
                self.answers.put(True)
            elif kind == "candidates" and signal["call"] == self.call:
                for candidate in signal["candidates"]:
                    await self.connection.add_candidate(candidate)

    async def _signal(self, kind, sdp):
        self.sdp = sdp
        await self.page.signal(self.tab, {"kind": kind, "call": self.call, "sdp": sdp})

    async def _connect(self, call):
        self.call = call
        self.connection = Connection(self.stun, self.states.put, self._handle_frame)
        await self.connection.begin()

    async def call_tab(self):
        await self._connect(random.randrange(1 << 32))
        await self._signal("offer", await self.connection.offer())

    async def restart(self):
        """Restarts ICE in the same call; returns when the tab has answered."""
        since = len(self.answers.values)
        await self._signal("offer", await self.connection.restart())
        return await self.answers.until(bool, since)

    async def until_open(self, since=0):
        return await self.states.until(lambda state: state == "open", since)

    # Frames and messages

    def _handle_frame(self, frame):
        self.frame_sizes.append(len(frame))
        if frame[0] == READ:
            self.acknowledged.put(READ_FRAME.unpack(frame)[1])
            return
        whole = self.page.add_segment(self.tab, frame[1:])
        if whole is not None:
            self.connection.send(READ_FRAME.pack(READ, whole[0]))
            self._handle_message(whole[1])

    def _handle_message(self, message):
        self.blocks.update(blocks_in(message))
        self.absent.update(absent_in(message))
        self.arrived.put(True)

    async def send_directly(self, message, frame_bytes):
        """Sends a message in frames of this length, and waits until the tab has read it."""
        self._next_message += 1
        room = frame_bytes - 1 - SEGMENT_HEAD.size
        for offset in range(0, len(message), room):
            head = SEGMENT_HEAD.pack(self._next_message, offset, len(message))
            self.connection.send(bytes([SEGMENT]) + head + message[offset : offset + room])
        return await self.acknowledged.until(lambda read: read == self._next_message)

    async def send_by_relay(self, message):
        self._next_message += 1
        await self.page.relay(self.tab, self._next_message, message)

    async def blocks_of(self, cids, send):
        """Wants these blocks, one after another, and returns their bytes."""
        for cid in cids:
            self.blocks.pop(cid, None)
            await send(wants([cid]))
            await self.until(lambda: cid in self.blocks)
        return [self.blocks[cid] for cid in cids]

    async def until(self, is_reached):
        while not is_reached():
            since = len(self.arrived.values)
            await self.arrived.until(bool, since)

    async def directly(self, message):
        await self.send_directly(message, FRAME_BYTES_MAX)


async def judge_first_call():
    """The tab calls, because much has moved through the relay."""
    peer = await Peer().enter()
    [root] = await peer.blocks_of([ROOT], peer.send_by_relay)
    leaves = links_of(ROOT, root)

    async def called():
        await peer.blocks_of(leaves[:2], peer.send_by_relay)
        return await peer.offers.until(lambda call: True) and await peer.until_open()

    async def loaded():
        file = b"".join(await peer.blocks_of(leaves, peer.directly))
        return hashlib.sha256(file).hexdigest() == SHA256

    async def small_enough():
        return max(peer.frame_sizes) == FRAME_BYTES_MAX or max(peer.frame_sizes)

    async def relayed():
        await peer.close()
        return await peer.blocks_of([ROOT], peer.send_by_relay) == [root]

    await case("the tab calls when two blocks have come through the relay, and the channel opens", called(), SECONDS)
    await case("the file arrives over the channel, and each block has its CID", loaded(), SECONDS)
    await case("the longest frame of the tab has 16 KiB", small_enough())
    await case("after the other side has closed the connection, a block comes through the relay", relayed(), SECONDS)
    await peer.leave()


async def judge_second_call():
    """The tab is called."""
    peer = await Peer().enter()
    unknown = [ROOT[:4] + bytes([n & 255, n >> 8]) * 16 for n in range(600)]

    async def opened():
        await peer.call_tab()
        return await peer.until_open()

    async def found_by_stun():
        return "typ srflx" in peer.sdp or peer.sdp

    async def answered(cids, frame_bytes):
        await peer.send_directly(wants(cids), frame_bytes)
        await peer.until(lambda: peer.absent.issuperset(cids))
        return True

    async def restarted():
        return await peer.restart() and await answered(unknown[500:], FRAME_BYTES_MAX)

    async def dropped():
        peer.connection.send(bytes(FRAME_BYTES_MAX + 1))
        return await peer.states.until(lambda state: state == "close")

    await case("the tab answers a call, and the channel opens", opened(), SECONDS)
    if Connection.has_stun:
        await case("aiortc learns its address from the server's STUN", found_by_stun())
    await case("400 wants in frames of 16 KiB are acknowledged and answered", answered(unknown[:400], FRAME_BYTES_MAX), SECONDS)
    await case("100 wants in some hundred frames of 24 bytes are acknowledged and answered", answered(unknown[400:500], 24), SECONDS)
    if Connection.can_restart:
        await case("the tab answers a restart of ICE, and wants are still answered", restarted(), SECONDS)
    await case("the tab closes the channel of a peer that sends a frame longer than 16 KiB", dropped(), SECONDS)
    await peer.leave()


async def judge_end():
    """The tab navigates away."""
    peer = await Peer().enter()

    async def closed():
        await peer.call_tab()
        await peer.until_open()
        await ask("leave")
        return await peer.states.until(lambda state: state == "close")

    await case("the channel closes when the tab navigates away", closed(), SECONDS)
    await peer.leave()


async def main():
    await judge_first_call()
    await judge_second_call()
    await judge_end()


asyncio.run(main())
