"""Orders of a shop: the same ones every time."""

import random
from collections.abc import Iterator

ITEMS = {"tea": 6.5, "kettle": 48.0, "lamp": 79.0, "desk": 310.0, "chair": 145.0}


def records(count: int) -> Iterator[dict[str, object]]:
    """This many orders, by customer."""
    chance = random.Random(7)
    for number in range(count):
        item = chance.choice(sorted(ITEMS))
        total = round(ITEMS[item] * chance.randint(1, 3), 2)
        customer = f"customer-{chance.randint(1, 20)}"
        yield {"key": customer, "value": {"id": number, "item": item, "total": total}}
