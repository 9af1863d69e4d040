"""What an admin client asks for and how it reads the answers, a module a subject.

No I/O happens here: `aio.admin_*` have the conversations.
What always holds: an answer is matched with what was asked for by name, never by place.
"""
