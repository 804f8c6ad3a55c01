"""What the Python programs need: cases as lines of JSON, and requests to the suite."""

import asyncio
import json
import sys

WAIT_SECONDS = 15


def show(**line):
    print(json.dumps(line), flush=True)


async def ask(request, **arguments):
    show(ask=request, **arguments)
    answer = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return answer.strip()


async def case(name, work, seconds=WAIT_SECONDS):
    """A case passes when its work returns True in time."""
    try:
        found = await asyncio.wait_for(work, seconds)
        show(name=name, isPassed=found is True, found=f"got {found!r}")
    except Exception as error:
        show(name=name, isPassed=False, found=f"{type(error).__name__}: {error}")


class Heard:
    """Values in the order of their arrival."""

    def __init__(self):
        self.values = []
        self._arrived = asyncio.Event()

    def put(self, value):
        self.values.append(value)
        self._arrived.set()

    async def until(self, is_wanted, since=0):
        while not any(is_wanted(value) for value in self.values[since:]):
            self._arrived.clear()
            await self._arrived.wait()
        return True
