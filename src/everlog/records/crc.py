"""CRC-32C, the checksum of record batches and of producer snapshots."""

from crc32c import crc32c

__all__ = ["crc32c"]
