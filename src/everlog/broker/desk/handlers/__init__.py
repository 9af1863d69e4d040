"""What the desk answers, one module an API: `handle(desk, request, exchange)`.

A handler reads the request, asks the quorum or the controller, and answers when that has; it decides nothing
itself. `dispatch` finds it by the API key. Whatever is asked is answered once, with an error code if need be.
"""
