"""The Python package phoenix-channels-python-client against the server at the port of the first argument."""

import asyncio
import sys

from phoenix_channels_python_client import PHXChannelsClient, PhoenixChannelsProtocolVersion
from program import Heard, ask, case

URL = f"ws://127.0.0.1:{sys.argv[1]}/socket/websocket"
TOPIC = "realtime:room"


async def publish(n):
    await ask("publish", topic=TOPIC, event="shout", payload={"n": n})


async def judge(version):
    heard, reconnected, acknowledged = Heard(), Heard(), Heard()

    async def hear(message):
        heard.put((str(message.event), message.payload.get("n")))

    async def note_reconnect():
        reconnected.put(True)

    async with PHXChannelsClient(
        URL,
        "anonymous",
        protocol_version=version,
        heartbeat_interval_s=1.0,
        on_reconnect=note_reconnect,
        on_heartbeat_ack=lambda: acknowledged.put(True),
    ) as client:

        async def joined():
            await client.subscribe_to_topic(TOPIC, hear)
            return client.is_topic_joined(TOPIC)

        async def published():
            await publish(1)
            return await heard.until(lambda value: value == ("shout", 1))

        async def restarted():
            await ask("restart")
            await reconnected.until(bool)
            await publish(2)
            return await heard.until(lambda value: value == ("shout", 2))

        async def refused():
            try:
                await client.subscribe_to_topic("no-such-topic")
            except Exception as error:
                return type(error).__name__ == "PHXTopicError"

        async def left():
            await client.unsubscribe_from_topic(TOPIC)
            return not client.is_topic_joined(TOPIC)

        vsn = version.vsn
        await case(f"{vsn}: a join is acknowledged", joined())
        await case(f"{vsn}: a message of the server's side reaches a client", published())
        await case(f"{vsn}: a heartbeat is answered", acknowledged.until(bool))
        await case(f"{vsn}: a join of an unknown topic is refused", refused())
        await case(f"{vsn}: a client joins again after a restart, and hears", restarted())
        await case(f"{vsn}: a client leaves", left())


async def main():
    versions = [PhoenixChannelsProtocolVersion.V1, PhoenixChannelsProtocolVersion.V2]
    for version in versions[:1] if "--slice" in sys.argv else versions:
        await judge(version)


asyncio.run(main())
