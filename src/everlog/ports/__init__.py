"""What a core may ask of the world, as Protocols: files, clocks, chance.

No implementation lives here. `edge` has the real ones, `sim` the simulated ones, and both pass the
same tests. Cores receive them as arguments and reach the world by no other way.
"""
