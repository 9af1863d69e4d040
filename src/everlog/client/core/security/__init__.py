"""How a client proves who it is and whom it trusts: SASL exchanges step by step, settings of TLS.

No I/O happens here: `drive.authentication` and `drive.tls` carry out.
What always holds: no secret is in a message or a repr.
"""
