"""What a transactional producer decides: its states, and what each code means in each of them (P5).

No I/O happens here: `drive.transactions` has the conversations with the coordinator.
What always holds: nothing is committed after an error that asks for an abort.
"""
