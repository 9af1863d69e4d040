"""The fetch sessions of brokers that follow partitions led here."""


class Followed:
    """One partition as one follower fetches it."""

    def has_more(self) -> None:
        """The partition has grown."""

    def has_news(self) -> None:
        """There is something to tell of it with the next answer."""
