"""A program that makes a client, forks, and uses the client on both sides; run by test_forks.

`python -m tests.client.forking WHAT BOOTSTRAP TOPIC` prints one JSON object: what each call in the child
raised, and what the parent got done afterwards.
"""

import asyncio
import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

if "--without-uvloop" in sys.argv:
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # it makes the import fail
import everlog
from everlog import aio

PATIENCE_S = 20.0
HANGS_S = 10

Calls = dict[str, Callable[[], object]]


def in_child(calls: Calls, *, leave: Callable[[int], object] = sys.exit) -> dict[str, str]:
    """Fork, make the calls in the child, and return what each raised; the child ends by `leave`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with open(reading) as told:
            found: dict[str, str] = json.loads(told.read() or "{}")
        _, status = os.waitpid(child, 0)
        return {**found, "exit": str(os.waitstatus_to_exitcode(status))}
    import signal

    signal.alarm(HANGS_S)
    os.close(reading)
    raised = {name: _raised(call) for name, call in calls.items()}
    with open(writing, "w") as told:
        told.write(json.dumps(raised))
    calls.clear()
    gc.collect()
    leave(0)
    raise AssertionError("the child goes on")


def _raised(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()!r}"
    except Exception as error:  # noqa: BLE001 - it is what the test looks at
        return f"{type(error).__name__}: {error}"


def producer(bootstrap: str, topic: str) -> dict[str, Any]:
    made = everlog.Producer(bootstrap, linger_ms=60_000)
    deliveries = [made.send(topic, b"%d" % number) for number in range(3)]
    made.flush(PATIENCE_S)
    # An open batch, to which records go without a line of Python.
    deliveries += [made.send(topic, b"%d" % number) for number in range(3, 6)]
    send = made.send
    with made:
        calls: Calls = {
            "send": lambda: made.send(topic, b"of the child"),
            "send once more": lambda: send(topic, b"of the child", partition=0),
            "send to another": lambda: made.send("another", b"of the child"),
            "send_arrow": lambda: made.send_arrow(topic, _table()),
            "flush": lambda: made.flush(1),
            "partitions_for": lambda: made.partitions_for(topic),
            "result": deliveries[-1].result,
            "delivered": lambda: deliveries[0].result().offset,
        }
        heard = in_child(calls)
        deliveries += [made.send(topic, b"%d" % number) for number in range(6, 9)]
        made.flush(PATIENCE_S)
        heard["retries"] = str(made.metrics()["retries"])
    return {"child": heard, "parent": [delivery.result(0).offset for delivery in deliveries]}


def _table() -> Any:
    return import_module("pyarrow").table({"value": [b"of the child"]})


def consumer(bootstrap: str, topic: str) -> dict[str, Any]:
    with everlog.Producer(bootstrap) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number)
    options: Any = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}
    with everlog.Consumer(bootstrap, enable_auto_commit=False, **options) as made:
        seen: list[int] = []
        rows = iter(made)
        while len(seen) < 3:
            seen.append(next(rows).offset)
        calls: Calls = {
            "next": lambda: next(rows),
            "iterate": lambda: next(iter(made)),
            "poll": lambda: made.poll(1.0),
            "commit": made.commit,
            "seek": lambda: made.seek((topic, 0), 0),
            "wakeup": made.wakeup,
        }
        heard = in_child(calls)
        seen += [next(rows).offset for _ in range(3)]
        made.commit(timeout=PATIENCE_S)
        (committed,) = made.committed().values()
    return {"child": heard, "parent": seen, "committed": committed and committed.offset}


def busy_consumer(bootstrap: str, topic: str) -> dict[str, Any]:
    """Another thread polls, and holds whatever a poll holds, when the process is forked."""
    with everlog.Consumer(bootstrap, auto_offset_reset="earliest") as made:
        made.assign([(topic, 0)])
        made.poll(0.1)
        seen: list[int] = []
        polling = threading.Thread(target=lambda: seen.extend(row.offset for row in made.poll(PATIENCE_S)))
        polling.start()
        heard = in_child({"poll": lambda: made.poll(1.0), "close": made.close})
        with everlog.Producer(bootstrap) as producer:
            producer.send(topic, b"x").result(PATIENCE_S)
        polling.join(PATIENCE_S)
    return {"child": heard, "parent": seen}


def admin(bootstrap: str, topic: str) -> dict[str, Any]:
    with everlog.Admin(bootstrap) as made:
        made.list_topics()
        heard = in_child({"list_topics": made.list_topics})
        found = topic in made.list_topics()
    return {"child": heard, "parent": found}


def on_a_loop(bootstrap: str, topic: str) -> dict[str, Any]:
    """The asyncio face, between two runs of its loop; those never used may be used in the child."""
    unused = aio.Admin(bootstrap)
    with asyncio.Runner() as runner:
        out, back, desk = aio.Producer(bootstrap), aio.Consumer(bootstrap), aio.Admin(bootstrap)

        async def use() -> int:
            found = await (await out.send(topic, b"x"))
            await back.assign([(topic, 0)])
            await back.seek(everlog.TopicPartition(topic, 0), found.offset)
            assert [row.offset for row in await back.poll(PATIENCE_S)] == [found.offset]
            assert topic in await desk.list_topics()
            return found.offset

        first = runner.run(use())
        calls: Calls = {
            "send": lambda: asyncio.run(out.send(topic, b"of the child")),
            "flush": lambda: asyncio.run(out.flush(1.0)),
            "poll": lambda: asyncio.run(back.poll(1.0)),
            "topics": lambda: asyncio.run(back.topics()),
            "list_topics": lambda: asyncio.run(desk.list_topics()),
            "close": lambda: asyncio.run(out.close()),
            "unused": lambda: topic in asyncio.run(unused.list_topics()),
        }
        # As multiprocessing leaves a child: the loop is the parent's, and nobody may tidy it up there.
        heard = in_child(calls, leave=os._exit)
        second = runner.run(use())
        for each in (out, back, desk):
            runner.run(each.close())
    return {"child": heard, "parent": [first, second]}


if __name__ == "__main__":
    what, at, name = sys.argv[1:4]
    print(json.dumps(globals()[what](at, name)))
