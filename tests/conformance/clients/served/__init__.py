"""Drivers of the Python clients, one module each, run as a process by `clients.sessions`."""
