"""Chance from the kernel; nobody can guess or repeat it."""

import os

from everlog.model.ids import Uuid


class SystemRandom:
    """A source of chance that is fit for ids and for spreading load."""

    def uuid(self) -> Uuid:
        """A fresh random UUID (RFC 9562, version 4) whose text form does not begin with a dash."""
        while True:
            raw = bytearray(os.urandom(16))
            # The first six bits are the first letter, and 62 is the dash. Kafka avoids it because a
            # command line takes such an id for an option.
            if raw[0] >> 2 == 62:
                continue
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            return Uuid(bytes(raw))

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1, each equally likely."""
        assert bound > 0, bound
        bits = (bound - 1).bit_length()
        count = bits + 7 >> 3
        while True:
            # Cutting to the needed bits and drawing again keeps all numbers equally likely; on
            # average fewer than two draws are made.
            number = int.from_bytes(os.urandom(count)) >> count * 8 - bits
            if number < bound:
                return number
