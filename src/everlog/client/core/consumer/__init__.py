"""What a consumer decides: positions, what to fetch from whom, what of an answer may be seen (C1, C5-C7).

No I/O happens here: `drive.fetcher` and `drive.reading` carry out.
What always holds: a position moves only past what was handed out.
"""
