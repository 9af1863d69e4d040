"""The simulated Aside lets the world move between a job and the word of its end."""

from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom


def test_a_job_ends_before_anybody_hears_of_it() -> None:
    aside = SimAside()
    events: list[str] = []
    aside.run(lambda: events.append("worked"), lambda result: events.append("told"))

    assert (aside.waiting, aside.ended, events) == (1, 0, [])
    assert aside.work()
    assert (aside.waiting, aside.ended, events) == (0, 1, ["worked"])
    assert aside.finish()
    assert events == ["worked", "told"]
    assert not aside.work()
    assert not aside.finish()


def test_chance_shuffles_the_order_and_a_seed_repeats_it() -> None:
    def run(seed: int) -> list[str | OSError]:
        aside, chance = SimAside(), SimRandom(seed)
        told: list[str | OSError] = []
        for name in "abcdefgh":
            aside.run(name.upper, told.append)
        while aside.work(chance):
            pass
        while aside.finish(chance):
            pass
        return told

    assert run(1) == run(1) != run(2)
    assert sorted(str(name) for name in run(1)) == list("ABCDEFGH")
