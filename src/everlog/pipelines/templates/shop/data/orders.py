"""Orders of one lunch time, the same ones every time: almost in the order in which they were placed."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import exp

OPENS = datetime(2026, 1, 15, 11, 30, tzinfo=UTC)
MINUTES = 24
LATE_SECONDS = 20
PRICES = {
    "margherita": 950,
    "ramen": 1450,
    "falafel": 820,
    "pad thai": 1290,
    "burger": 1180,
    "poke bowl": 1390,
    "tiramisu": 640,
}
CITIES = ("Berlin", "Lisbon", "Nairobi", "Osaka", "Porto Alegre", "Tallinn", "Vancouver")


def records(count: int) -> Iterator[dict[str, object]]:
    """This many orders by customer; the last one is placed an hour after the others."""
    chance = random.Random(7)
    # Few at first, most at noon, few again.
    weights = [0.25 + exp(-(((minute - 11) / 6) ** 2)) for minute in range(MINUTES)]
    placed: list[tuple[float, float]] = []
    for minute in chance.choices(range(MINUTES), weights, k=max(0, count - 1)):
        at = 60 * minute + chance.random() * 60
        placed.append((at + min(LATE_SECONDS, chance.expovariate(1 / 4)), at))
    placed.sort()
    for number, (_, at) in enumerate(placed):
        yield _order(chance, number, at)
    if count:
        yield _order(chance, count - 1, 60.0 * (MINUTES + 60))


def _order(chance: random.Random, number: int, at: float) -> dict[str, object]:
    customer = f"customer-{int(chance.expovariate(1 / 700)) % 5000:04d}"
    dishes = {
        dish: chance.choice((1, 1, 1, 2, 3)) for dish in chance.sample(sorted(PRICES), k=chance.randint(1, 3))
    }
    order = {
        "order_id": f"{number:08d}",
        "customer": customer,
        "city": chance.choice(CITIES),
        "items": [
            {"dish": dish, "quantity": quantity, "price_cents": PRICES[dish]}
            for dish, quantity in dishes.items()
        ],
        "total_cents": sum(PRICES[dish] * quantity for dish, quantity in dishes.items()),
        "at": (OPENS + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    return {"key": customer, "value": order}
