"""Clients of an API that do what they like: ``python -m tests.stress.api_flood HOST PORT SECONDS RATE SEED``.

So many requests are begun in each second, whatever becomes of those before, and slow clients stay connected beside
them. The token comes by standard input; how many requests of each kind had which answer is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

#: Bytes of a body that is too large.
HUGE = 100_000
#: How many slow clients are connected, and the seconds between two of their bytes.
SLOW, PAUSE = 40, 1.0
#: Seconds after which a client leaves: longer than the server has any of them.
PATIENCE = 60.0


def kinds(token: str) -> dict[str, bytes]:
    """What is sent, by the kind of client."""
    ask = "GET /v1/status HTTP/1.1\r\nHost: x\r\n"
    release = "POST /v1/jobs/copy/release HTTP/1.1\r\nHost: x\r\n"
    return {
        "no token": f"{ask}\r\n".encode(),
        "wrong token": f"{ask}Authorization: Bearer {token[:-1]}-\r\n\r\n".encode(),
        "token": f"{ask}Authorization: Bearer {token}\r\n\r\n".encode(),
        "huge body": f"{release}Authorization: Bearer {token}\r\nContent-Length: {HUGE}\r\n\r\n{'x' * HUGE}".encode(),
        "no HTTP": b"\x16\x03\x01 no HTTP\r\n\r\n",
    }


async def asked(host: str, port: int, data: bytes) -> str:
    """The code of the answer; ``cut`` where the connection ends without one."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(data)
            await writer.drain()
        except OSError:
            pass  # the answer may be there all the same
        line = await asyncio.wait_for(reader.readline(), PATIENCE)
        return line.split()[1].decode() if line.startswith(b"HTTP/1.1 ") else "cut"
    except TimeoutError:
        return "none"
    except OSError:
        return "cut"
    finally:
        if writer is not None:
            writer.close()


async def slow(host: str, port: int, data: bytes, ended: Callable[[], bool], cuts: list[int]) -> None:
    """A client that sends a byte, and then another one much later; cut off, it comes again."""
    while not ended():
        try:
            _, writer = await asyncio.open_connection(host, port)
            for one in data:
                writer.write(bytes([one]))
                await writer.drain()
                await asyncio.sleep(PAUSE)
                if ended():
                    writer.close()
                    return
        except OSError:
            cuts[0] += 1


async def flood(host: str, port: int, seconds: float, rate: int, seed: int, token: str) -> dict[str, object]:
    """All of it."""
    sent, choose = kinds(token), random.Random(seed)
    found, cuts, begun = Counter[str](), [0], time.monotonic()

    def ended() -> bool:
        return time.monotonic() >= begun + seconds

    async def one(kind: str) -> None:
        found[f"{kind}: {await asked(host, port, sent[kind])}"] += 1

    tasks = [asyncio.create_task(slow(host, port, sent["no token"], ended, cuts)) for _ in range(SLOW)]
    number = 0
    while not ended():
        due = int((time.monotonic() - begun) * rate)
        for _ in range(due - number):
            tasks.append(asyncio.create_task(one(choose.choice(sorted(sent)))))
        number = due
        await asyncio.sleep(0.005)
    took = time.monotonic() - begun
    await asyncio.gather(*tasks)
    return {"requests": number, "seconds": took, "answers": found, "slow clients cut": cuts[0]}


if __name__ == "__main__":
    where, at, lasts, each, first = sys.argv[1:]
    print(json.dumps(asyncio.run(
        flood(where, int(at), float(lasts), int(each), int(first), sys.stdin.readline().strip())
    )))
