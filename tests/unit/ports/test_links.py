"""Connections to other nodes, real and simulated: both keep the promises of the port."""

from collections.abc import Iterator

import pytest

from .link_worlds import Owner, World, a_world, framed


@pytest.fixture(params=["asyncio", "uvloop", "sim"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = a_world(request.param)
    yield made
    made.close()


def test_nothing_is_said_before_connect_has_returned(world: World) -> None:
    owner = Owner()
    world.links.connect(world.host, world.port, owner)
    assert owner.heard == []
    world.until(lambda: owner.heard == ["opened"])


def test_what_is_sent_before_the_connection_is_there_goes_out_in_order(world: World) -> None:
    owner = Owner()
    link = world.links.connect(world.host, world.port, owner)
    link.send([framed(b"first")])
    link.send([framed(b"second")])
    world.until(lambda: owner.heard == ["opened"])
    link.send([framed(b"third")])
    world.until(lambda: bool(world.taken) and len(world.taken[0].frames) == 3)
    assert world.taken[0].frames == [b"first", b"second", b"third"]


def test_a_frame_may_be_sent_in_pieces_of_any_kind(world: World) -> None:
    link = world.links.connect(world.host, world.port, Owner())
    whole = framed(b"one two three")
    link.send([whole[:3], memoryview(whole)[3:9], bytearray(whole[9:])])
    world.until(lambda: bool(world.taken) and bool(world.taken[0].frames))
    assert world.taken[0].frames == [b"one two three"]


def test_frames_come_without_their_size_and_in_order(world: World) -> None:
    owner = Owner()
    world.links.connect(world.host, world.port, owner)
    world.until(lambda: bool(world.taken) and owner.heard == ["opened"])
    for body in (b"first", b"", b"third"):
        world.taken[0].send(framed(body))
    world.until(lambda: len(owner.frames) == 3)
    assert owner.frames == [b"first", b"", b"third"]


def test_where_nobody_listens_it_is_refused(world: World) -> None:
    owner = Owner()
    world.links.connect(world.host, world.silent_port, owner)
    assert owner.heard == []
    world.until(lambda: owner.heard == ["refused"])


def test_the_owner_hears_of_the_end_once_and_last(world: World) -> None:
    owner = Owner()
    link = world.links.connect(world.host, world.port, owner)
    world.until(lambda: bool(world.taken) and owner.heard == ["opened"])
    world.taken[0].send(framed(b"last words"))
    world.until(lambda: len(owner.frames) == 1)
    world.taken[0].hang_up()
    world.until(lambda: "lost" in owner.heard)
    link.send([framed(b"too late")])
    link.close()
    assert owner.heard == ["opened", "received", "lost"]


def test_an_owner_that_closes_hears_nothing_more_and_the_far_end_does(world: World) -> None:
    owner = Owner()
    link = world.links.connect(world.host, world.port, owner)
    world.until(lambda: bool(world.taken) and owner.heard == ["opened"])
    link.close()
    world.until(lambda: world.taken[0].is_over)
    assert owner.heard == ["opened"]


def test_an_owner_may_close_before_the_connection_is_there(world: World) -> None:
    given_up, owner = Owner(), Owner()
    link = world.links.connect(world.host, world.port, given_up)
    link.send([framed(b"x")])
    link.close()
    world.links.connect(world.host, world.port, owner)
    world.until(lambda: owner.heard == ["opened"])
    assert given_up.heard == []


def test_an_owner_may_close_while_it_is_told_of_a_frame(world: World) -> None:
    owner = Owner()
    link = world.links.connect(world.host, world.port, owner)
    owner.on_frame = lambda _: link.close()
    world.until(lambda: bool(world.taken) and owner.heard == ["opened"])
    world.taken[0].send(framed(b"first"))
    world.taken[0].send(framed(b"second"))
    world.until(lambda: world.taken[0].is_over)
    assert owner.frames == [b"first"]
