"""A seed's world of several nodes: their machines, the mesh between them, clients, and what goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from everlog.sim.chance import SimRandom
from everlog.sim.checkers import Violation, check
from everlog.sim.clock import MIDNIGHT, DriftingClock
from everlog.sim.cluster_clients import ClientConnection, ProcessHome
from everlog.sim.cluster_ghosts import ClusterGhosts
from everlog.sim.cluster_nemesis import ClusterNemesis
from everlog.sim.cluster_plan import ClusterPlan, Mark, draw_cluster
from everlog.sim.cluster_trace import Trace
from everlog.sim.history import History, Kind, Operation, Outcome, Recorder
from everlog.sim.machine import CLIENTS_PORT, CONTROLLERS_PORT, Machine, host_name
from everlog.sim.mesh import Mesh
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes, Plan
from everlog.sim.player import Player
from everlog.sim.process import Process
from everlog.sim.script import ANYBODY, Script
from everlog.sim.timeline import Timeline
from everlog.sim.workloads.actor import Setting
from everlog.sim.workloads.cast import Cast, Troupe
from everlog.sim.workloads.errands import Errand, rack_of, scripts_of, unmet

_CALM = Weather()
_BEGINNING_MS = 30_000
LIVENESS_MS = 60_000
"""Within so long after all is healed, clients come to an end, and everything can be read."""


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """What became of a seed."""

    plan: ClusterPlan
    history: History
    violations: list[Violation]
    problems: list[str]
    fingerprint: int
    """Changes with any byte that went over the network and with when it did."""
    events: int
    simulated_ms: int
    struck: dict[str, int]
    """How often each blow was dealt."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.violations and not self.problems


class ClusterWorld:
    """One run. Everything that happens is an event of its timeline, and every draw comes from its seed."""

    def __init__(
        self,
        plan: ClusterPlan,
        trace: Trace | None = None,
        casting: Callable[[Plan, Setting, SimRandom], Troupe] = Cast,
    ) -> None:
        self.plan = plan
        self._casting = casting
        self.time = Timeline()
        self._trace = trace
        self._chance = chance = SimRandom(plan.seed)
        self.mesh = Mesh(self.time, chance.fork("mesh"))
        if trace is not None:
            trace.attach(self.time, self.mesh)
        self._stopping = False
        self.recorder = Recorder()
        self.setting = Setting(
            self.recorder, self.time.ticks, self._wall, lambda: self._stopping, clustered=True
        )
        self.setting.slowness = plan.clients.slowness
        self.setting.session_ms = int(plan.settings["group.consumer.session.timeout.ms"])
        self.setting.drowsy = plan.clients.drowsy
        self.machines = [self._machine(node_id) for node_id in range(1, plan.nodes + 1)]
        self.ghosts = ClusterGhosts(self.machines, self.recorder, self.setting.ids, self.say)
        self.nemesis = ClusterNemesis(self, chance.fork("nemesis"))
        self._players: list[Player | Process] = []

    def _machine(self, node_id: int) -> Machine:
        plan = self.plan
        name = host_name(node_id)
        clock = DriftingClock(self.time.now_ms, plan.drifts_ppm[node_id - 1], began_ms=node_id * 1_000)
        voters = [
            f"{voter}@{host_name(voter)}:{CONTROLLERS_PORT}" for voter in range(1, min(plan.nodes, 3) + 1)
        ]
        settings = {**plan.settings, "controller.quorum.voters": ",".join(voters), "cluster.id": _CLUSTER_ID}
        if Errand.READ_NEAR in plan.errands:
            settings["broker.rack"] = rack_of(node_id)
        if node_id > len(voters) and Errand.VOTERS in plan.errands:
            # It does not vote until somebody wants it to.
            del settings["controller.quorum.voters"]
            known = ",".join(f"{host_name(voter)}:{CONTROLLERS_PORT}" for voter in range(1, 4))
            settings["controller.quorum.bootstrap.servers"] = known
        elif node_id > len(voters):
            # A larger cluster has brokers that follow the quorum and do not vote.
            settings["process.roles"] = "broker"
            settings["listeners"] = f"PLAINTEXT://{name}:{CLIENTS_PORT}"
        machine = Machine(node_id, self.mesh, clock, self._chance.fork(name), settings, self._stepped)
        machine.on_recovered = lambda _node: self.ghosts.recovered(machine)
        machine.kill_when_crashed = lambda: self.nemesis.crashed(machine)
        machine.on_failed = lambda error: self.nemesis.failed(machine, str(error))
        return machine

    # What others ask of it.

    def say(self, what: str) -> None:
        """Put a line into the trace, if there is one."""
        if self._trace is not None:
            self._trace.say(what)

    def note_fault(self, start: int, what: str) -> None:
        """Record that something was broken until now."""
        now = self.time.ticks()
        self.recorder.add(Operation("nemesis", Kind.FAULT, Outcome.OK, start, now, note=what))

    def stopped(self, machine: Machine, *, clean: bool = False) -> None:
        """A machine stops now."""
        self.ghosts.stopped(machine, clean=clean)

    def is_marked(self, machine: Machine, mark: Mark) -> bool:
        """Whether a machine is what a mark says."""
        return self.ghosts.is_marked(machine, mark)

    def may_stop(self, machines: list[Machine]) -> bool:
        """Whether these may stop uncleanly at once without anything lost that was acknowledged.

        Nothing is lost with a process, and nothing with the power where acknowledgements wait for disks. Else
        a good copy of everything has to be left, or its loss would be nobody's fault.
        """
        return self.plan.crashes is not Crashes.POWER or self.ghosts.has_copies_without(machines)

    def has_copies_without(self, machine: Machine) -> bool:
        """Whether good copies of everything are elsewhere."""
        return self.ghosts.has_copies_without([machine])

    def is_broken(self, machine: Machine) -> bool:
        """Whether a node's disk has failed it, so that it needs to be started again."""
        return self.ghosts.is_broken(machine)

    def client_names(self) -> list[str]:
        """The machines of all clients."""
        return [player.name for player in self._players]

    def _wall(self) -> int:
        # Clients have a clock of their own, which is right.
        return MIDNIGHT + self.time.now_ms()

    # The run.

    def run(self) -> ClusterResult:
        """Run from the start to the end, and look at what came of it."""
        plan = self.plan
        cast = self._casting(plan.clients, self.setting, self._chance.fork("cast"))
        for machine in self.machines:
            self.time.at(self._chance.below(50), machine.start)
        self._play("setup", cast.setup())
        self._run_until(self._all_done, "making topics", _BEGINNING_MS)
        self.mesh.weather = plan.clients.weather
        self.recorder.promises = cast.promises()
        for name, script in cast.scripts():
            if name not in plan.clients.absent:
                self._play(name, script)
        self._run_errands()
        self._run_programs(cast)
        self.nemesis.schedule(plan.strikes)
        self.time.at(plan.clients.load_ms, self._stop_clients)
        self._run_until(lambda: self._stopping, "the load", plan.clients.load_ms + 1)
        self.mesh.weather = _CALM
        self.nemesis.heal()
        self.say("healed")
        self._run_until(self._all_done, "clients coming to an end", LIVENESS_MS)
        # A new leader shows what is committed once it knows, which may take until others have come back.
        self._run_until(self.ghosts.converged, "replicas catching up", LIVENESS_MS)
        assert self.ghosts.images.newest is not None
        for what in unmet(self.setting, self.ghosts.images.newest):
            self.setting.complain("operators", what)
        self._play("final", cast.final())
        self._run_until(self._all_done, "the final read", LIVENESS_MS)
        return self._result()

    def _play(self, name: str, script: Script[None]) -> None:
        chance = self._chance.fork(f"choices of {name}")

        def connect(
            node: int, on_frame: Callable[[bytes], None], on_lost: Callable[[], None]
        ) -> ClientConnection:
            if node == ANYBODY:
                node = 1 + chance.below(self.plan.nodes)
            return ClientConnection(self.mesh, name, host_name(node), on_frame, on_lost)

        player = Player(name, script, self.time.at, connect)
        self._players.append(player)
        self.time.at(chance.below(20), player.start)

    def _run_errands(self) -> None:
        for errand in self.plan.errands:
            chance = self._chance.fork(f"errand {errand}")
            for name, script in scripts_of(errand, self.setting, chance, CONTROLLERS_PORT):
                if name not in self.plan.clients.absent:
                    self._play(name, script)

    def _run_programs(self, cast: Troupe) -> None:
        hosts = [machine.name for machine in self.machines]
        processes: list[Process] = []
        for name, program in cast.programs():
            chance = self._chance.fork(f"process {name}")
            if name not in self.plan.clients.absent:
                home = ProcessHome(name, self.time, self.mesh, hosts, self.setting)
                processes.append(Process(home, name, program, chance))
                self.time.at(chance.below(20), processes[-1].start)
        self._players += processes
        for delay_ms, number in self.plan.clients.client_kills:
            if processes:
                self.time.at(delay_ms, processes[number % len(processes)].kill)

    def end(self) -> None:
        """End processes that are left, as after a failure: nothing of them is to outlive their world."""
        for player in self._players:
            if isinstance(player, Process):
                player.end()

    def _stop_clients(self) -> None:
        self._stopping = True

    def _all_done(self) -> bool:
        return all(player.done for player in self._players)

    def _run_until(self, over: Callable[[], bool], what: str, limit_ms: int) -> None:
        if not self.time.run_until(over, limit_ms):
            busy = [player.name for player in self._players if not player.done]
            raise AssertionError(
                f"{what} is not over after {limit_ms} ms; busy: {busy}; {self.ghosts.state()}"
            )

    def _stepped(self, machine: Machine) -> None:
        self.ghosts.step(machine)
        self.nemesis.ambushes.stepped(machine)

    def _result(self) -> ClusterResult:
        history = self.recorder.history()
        return ClusterResult(
            self.plan,
            history,
            check(history),
            self.setting.problems,
            self.time.fingerprint,
            self.time.ran,
            self.time.now_ms(),
            self.nemesis.struck,
        )


_CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"


def client_names(plan: ClusterPlan) -> list[str]:
    """The clients that a plan has, those that are absent included."""
    chosen = plan.clients
    counts = {
        "plain": chosen.plain_appenders,
        "idempotent": chosen.idempotent_appenders,
        "reader": chosen.readers,
        "transactor": chosen.transactors,
        "member": chosen.members,
        "pipeline": chosen.pipelines,
    }
    names = [f"{kind}{number}" for kind, count in counts.items() for number in range(count)]
    return [*names, *plan.errands, *(["guest"] if Errand.PASS in plan.errands else [])]


def run_cluster_seed(seed: int, trace: Trace | None = None) -> ClusterResult:
    """Run one seed; what goes wrong inside is raised with the seed's plan."""
    return run_cluster_plan(draw_cluster(seed), trace)


def run_cluster_plan(plan: ClusterPlan, trace: Trace | None = None) -> ClusterResult:
    """Run one plan; what goes wrong inside is raised with it."""
    try:
        return ClusterWorld(plan, trace).run()
    except Exception as error:
        error.add_note(f"{plan}\nreplay: python -m everlog.sim --cluster --seed {plan.seed} --trace")
        raise
