"""A connection of the Python package aiortc."""

from aioice import ice
from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection, RTCSessionDescription
from aiortc.sdp import candidate_from_sdp

# aioice leaves out the loopback addresses, and nothing here may leave the machine.
ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"] if use_ipv4 else []


class Connection:
    """`on_state` gets "open" and "close", and `on_frame` each frame that arrives."""

    has_stun = True
    can_restart = False

    def __init__(self, stun, on_state, on_frame):
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[RTCIceServer(urls=stun)]))
        self._channel = self._connection.createDataChannel("watchfire", negotiated=True, id=0)
        self._channel.on("message", on_frame)
        for state in ("open", "close"):
            self._channel.on(state, lambda state=state: on_state(state))

    async def begin(self):
        pass

    async def offer(self):
        await self._connection.setLocalDescription(await self._connection.createOffer())
        return self._connection.localDescription.sdp

    async def answer(self, offer):
        await self._connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await self._connection.setLocalDescription(await self._connection.createAnswer())
        return self._connection.localDescription.sdp

    async def accept(self, answer):
        await self._connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def add_candidate(self, candidate):
        parsed = candidate_from_sdp(candidate["candidate"].removeprefix("candidate:"))
        parsed.sdpMid = candidate["sdpMid"]
        parsed.sdpMLineIndex = candidate["sdpMLineIndex"]
        await self._connection.addIceCandidate(parsed)

    def send(self, frame):
        self._channel.send(frame)

    async def close(self):
        await self._connection.close()
