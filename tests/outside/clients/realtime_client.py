"""The Python package realtime against the server at the port of the first argument."""

import asyncio
import sys

from program import Heard, ask, case
from realtime import AsyncRealtimeClient

URL = f"ws://127.0.0.1:{sys.argv[1]}/socket"


def number(value):
    return value.get("payload", {}).get("n")


async def join(client):
    heard, states = Heard(), Heard()
    channel = client.channel("room")
    channel.on_broadcast("shout", heard.put)
    await channel.subscribe(lambda state, _error: states.put(str(state.value)))
    return channel, heard, states


async def publish(n):
    payload = {"type": "broadcast", "event": "shout", "payload": {"n": n}}
    await ask("publish", topic="realtime:room", event="broadcast", payload=payload)


async def main():
    ada, ben = (AsyncRealtimeClient(URL, token="anonymous", initial_backoff=0.2) for _ in range(2))
    one, heard, states = await join(ada)
    _, heard_by_ben, states_of_ben = await join(ben)

    async def joined():
        is_joined = lambda state: state == "SUBSCRIBED"
        return await states.until(is_joined) and await states_of_ben.until(is_joined)

    async def pushed():
        await one.send_broadcast("shout", {"n": 1})
        return await heard_by_ben.until(lambda value: number(value) == 1)

    async def published():
        await publish(2)
        return await heard.until(lambda value: number(value) == 2)

    async def restarted():
        before = len(states.values)
        await ask("restart")
        await states.until(lambda state: state == "SUBSCRIBED", since=before)
        await publish(3)
        return await heard.until(lambda value: number(value) == 3)

    async def left():
        before = len(states.values)
        await one.unsubscribe()
        return await states.until(lambda state: state == "CLOSED", since=before)

    await case("a join is acknowledged", joined())
    await case("a push reaches another client", pushed())
    await case("a message of the server's side reaches a client", published())
    await case("a client joins again after a restart, and hears", restarted())
    await case("a client leaves", left())


asyncio.run(main())
