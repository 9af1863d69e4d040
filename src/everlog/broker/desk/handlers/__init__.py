"""One handler an API of the controller: `handle(desk, request, exchange)`, entered in `desk.dispatch`."""
