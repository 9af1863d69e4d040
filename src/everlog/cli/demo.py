"""The demo that `make run` starts: orders stream into a cluster, and Spark makes minutes and rows of them.

The brokers are processes of their own, as `everlog up --brokers 3` starts them, and each keeps a copy of each
topic. The pipeline is the template `shop`, as `everlog pipeline run --continuous` runs it. The orders come
from a seed, so every run makes the same ones, and what comes out is held against them. Without a Java for
Spark the cluster shows alone what it can do.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everlog.cli.demo_broker import DemoBrokers, demo_brokers
from everlog.cli.demo_orders import Orders, OrderStream, make_orders
from everlog.cli.demo_view import DemoView, minute_line, pace, serving_line, total_line
from everlog.cli.output import envelope
from everlog.model.errors import ConfigError, EverlogError

if TYPE_CHECKING:
    from everlog.cli.demo_pipeline import DemoPipeline
    from everlog.cli.demo_results import Checks, TableFound, VolumeReader
    from everlog.pipelines.project import Project
    from everlog.tables.spec import TableSpec

VOLUME_GROUP = "shop-volume"
PATIENCE_SECONDS = 300.0
FLOWS = 2


@click.command()
@click.option(
    "--count",
    type=click.IntRange(min=100),
    metavar="N",
    default=40_000,
    show_default=True,
    help="How many orders.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    metavar="N",
    default=15.0,
    show_default=True,
    help="How long the second half of them takes.",
)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    metavar="N",
    default=3,
    show_default=True,
    help="How many brokers, each a process of its own.",
)
@click.option("--keep", is_flag=True, help="Leave brokers and pipeline running after the summary.")
@click.option("--without-spark", is_flag=True, help="Show the brokers alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def main(*, count: int, seconds: float, brokers: int, keep: bool, without_spark: bool, as_json: bool) -> None:
    """Stream sample orders into a cluster and through a pipeline on Spark, and show what came out."""
    # Whoever ends us by SIGTERM means the brokers too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    view = DemoView(quiet=as_json)
    directory = tempfile.mkdtemp(prefix="everlog-demo-")
    try:
        with demo_brokers(directory, brokers) as cluster:
            demo = Demo(cluster, Path(directory), view, seconds)
            _run(demo, count, keep=keep, alone=without_spark, as_json=as_json)
    except KeyboardInterrupt:
        view.say()
    except (EverlogError, OSError) as error:
        view.close()
        click.echo(f"error: {error}; what it left, with all logs, is in {directory}", err=True)
        sys.exit(1)
    view.close()
    shutil.rmtree(directory, ignore_errors=True)


def _run(demo: "Demo", count: int, *, keep: bool, alone: bool, as_json: bool) -> None:
    cluster, view = demo.cluster, demo.view
    view.say(serving_line(cluster.addresses, cluster.start_seconds))
    reason = "as you wish" if alone else _why_no_spark()
    data = demo.without_spark(count, reason, keep=keep) if reason else demo.with_spark(count, keep=keep)
    if as_json:
        click.echo(envelope("demo", data))


def _why_no_spark() -> str | None:
    """What is missing for a run on Spark, in one line; None if nothing is."""
    try:
        from everlog.spark.session import prepare

        prepare()
    except ConfigError as error:
        return str(error)
    return None


class Demo:
    """One run of the demo, on brokers that serve."""

    def __init__(self, cluster: DemoBrokers, directory: Path, view: DemoView, live_seconds: float) -> None:
        self.cluster = cluster
        self.view = view
        self._directory = directory
        self._live_seconds = live_seconds
        self._began = time.monotonic()

    def without_spark(self, count: int, reason: str, *, keep: bool) -> dict[str, object]:
        """Write orders, and read them back."""
        from everlog.cli.demo_readback import maker_of_orders, read_back

        self.view.say(f"Spark is left out: {reason}")
        orders = make_orders(maker_of_orders(), count)
        stream = self._topic_and_stream(orders)
        stream.start()
        stream.go_live()
        self._until(lambda: stream.is_done, "orders are being written", stream.check)
        found = read_back(self.cluster.bootstrap, stream.topic)
        self.view.heading("Orders per minute, as read back")
        largest = max(minute.orders for minute in found.minutes.values())
        for name, minute in sorted(found.minutes.items()):
            self.view.say(minute_line(name, minute, largest))
        self.view.heading("In and out")
        self.view.say(f"  {stream.written.records:,} orders written   {pace(stream.written)}")
        self.view.say(f"  {found.records:,} orders read      {pace(found.pace)}")
        good = found.minutes == orders.minutes
        self.view.say(f"  {self.view.mark(good=good)} every minute has the count and sum of its orders")
        if not good:
            raise EverlogError(f"topic {stream.topic!r} gave back other orders than were written to it")
        self._finish(None, keep=keep)
        return {
            "bootstrap": self.cluster.bootstrap,
            "brokers": len(self.cluster.addresses),
            "spark": None,
            "spark_left_out": reason,
            "orders": {"written": stream.written.records, "read": found.records},
            "exactly_once": good,
            "seconds": round(time.monotonic() - self._began, 2),
        }

    def with_spark(self, count: int, *, keep: bool) -> dict[str, object]:
        """Run the pipeline beside the stream of orders, and check what it makes of them."""
        from everlog.cli.demo_pipeline import DemoPipeline
        from everlog.cli.demo_results import VolumeReader, check, find_cluster, group_lag, read_table
        from everlog.pipelines.scaffold import create_project

        project = create_project(self._directory / "shop", "shop")
        maker = project.topics[0].data
        assert maker is not None
        self._create(project)
        view, bootstrap = self.view, self.cluster.bootstrap
        with DemoPipeline(project, bootstrap) as pipeline:
            orders = make_orders(maker, count)
            stream = OrderStream(bootstrap, project.topics[0].name, orders, self._live_seconds)
            volume = VolumeReader(bootstrap, project.topics[1].name)
            try:
                spark_seconds = self._start(pipeline, stream)
                spec = self._table_spec(project)
                self._watch(pipeline, stream, volume, orders, spec)
                table, lag = read_table(spec), group_lag(bootstrap, VOLUME_GROUP)
                cluster = find_cluster(bootstrap, [topic.name for topic in project.topics])
                checks = check(orders, volume, table, lag)
                flows = list(pipeline.tally.flows.values())
                view.summary(cluster, stream.written, table, flows, checks, lag, [VOLUME_GROUP])
                if checks.broken:
                    raise EverlogError(f"not exactly once: {'; '.join(checks.broken)}")
                data = self._shape(stream, volume, table, checks, lag, pipeline, spark_seconds)
                data["copies"] = {"kept": cluster.copies, "in_sync": cluster.in_sync}
                self._finish(pipeline, keep=keep)
                return data
            finally:
                stream.close()
                volume.close()

    def _create(self, project: "Project") -> None:
        from everlog.cli.pipeline_seed import seed_project

        seed_project(project, self.cluster.bootstrap, topics_only=True)

    def _topic_and_stream(self, orders: Orders) -> OrderStream:
        from everlog.cli.connect import open_admin

        with open_admin(self.cluster.bootstrap, PATIENCE_SECONDS) as admin:
            admin.create_topic("orders", 3)
        return OrderStream(self.cluster.bootstrap, "orders", orders, seconds=0.0)

    def _start(self, pipeline: "DemoPipeline", stream: OrderStream) -> float:
        """Let half of the orders wait for Spark, and the rest stream in once it runs."""
        began = time.monotonic()
        stream.start()
        self.view.say(f"Spark is starting; {stream.waiting:,} orders wait in topic {stream.topic} meanwhile.")
        self._until(lambda: pipeline.is_running(FLOWS), "Spark is starting", stream.check)
        seconds = time.monotonic() - began
        stream.go_live()
        left = len(stream.orders.records) - stream.waiting
        self.view.say(
            f"Spark runs after {seconds:.1f} s. {left:,} more orders stream in, in {self._live_seconds:g} s."
        )
        return seconds

    def _watch(
        self,
        pipeline: "DemoPipeline",
        stream: OrderStream,
        volume: "VolumeReader",
        orders: Orders,
        spec: "TableSpec",
    ) -> None:
        """Show minutes as they come out, until all have, and all rows are in the table."""
        from everlog.cli.demo_results import group_lag, rows_in_table

        view, closed = self.view, orders.closed
        largest = max(minute.orders for minute in closed.values())
        view.heading("Order volume of each minute, as it comes out of topic order-volume")

        def step() -> bool:
            for name, minute in sorted(volume.poll(0.2), key=lambda came: came[0]):
                view.say(minute_line(name, minute, largest))
            lag = pipeline.tally.lag
            view.status(
                f"{stream.written.records:,} orders in, {len(volume.minutes)} of {len(closed)} minutes out, "
                f"lag {'-' if lag is None else f'{lag:,}'}"
            )
            pipeline.check()
            return stream.is_done and len(volume.minutes) >= len(closed)

        self._until(step, None, stream.check)
        count = len(orders.records)
        view.say(total_line(list(volume.minutes.values()), count))
        self._until(
            lambda: rows_in_table(spec) >= count and group_lag(self.cluster.bootstrap, VOLUME_GROUP) == 0,
            "the last rows go into the table",
            pipeline.check,
        )

    def _until(self, done: Callable[[], bool], what: str | None, check: Callable[[], None]) -> None:
        """Wait for something, with a word on the terminal; EverlogError if it takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            check()
            if time.monotonic() > deadline:
                raise EverlogError(
                    f"{what or 'the pipeline is at work'}: not over after {PATIENCE_SECONDS:g} s"
                )
            if what is not None:
                self.view.status(f"{what}, {time.monotonic() - self._began:.0f} s")
                time.sleep(0.1)

    def _table_spec(self, project: "Project") -> "TableSpec":
        from everlog.tables.spec import TableSpec

        place = project.local_storage
        assert place is not None
        return TableSpec(
            name="orders",
            topic=project.topics[0].name,
            location=str(place / "lake" / "orders"),
            schema="order_id string, customer string, city string, total_cents long, at timestamp",
        )

    def _shape(
        self,
        stream: OrderStream,
        volume: "VolumeReader",
        table: "TableFound",
        checks: "Checks",
        lag: int | None,
        pipeline: "DemoPipeline",
        spark_seconds: float,
    ) -> dict[str, object]:
        return {
            "bootstrap": self.cluster.bootstrap,
            "brokers": len(self.cluster.addresses),
            "spark": {"start_seconds": round(spark_seconds, 2), "flows": pipeline.tally.shape()},
            "spark_left_out": None,
            "orders": {
                "written": stream.written.records,
                "bytes": stream.written.size_bytes,
                "seconds": round(stream.written.seconds, 2),
            },
            "minutes": [
                {"minute": name, "orders": minute.orders, "volume_cents": minute.volume_cents}
                for name, minute in sorted(volume.minutes.items())
            ],
            "table": {
                "format": table.format,
                "rows": table.rows,
                "files": table.files,
                "commits": table.commits,
                "bytes": table.size_bytes,
            },
            "lag": lag,
            "exactly_once": checks.all_held,
            "seconds": round(time.monotonic() - self._began, 2),
        }

    def _finish(self, pipeline: "DemoPipeline | None", *, keep: bool) -> None:
        """Say how long it took and where to look; with `keep` wait until somebody has seen enough."""
        view, bootstrap = self.view, self.cluster.bootstrap
        view.say()
        view.say(f"All that took {time.monotonic() - self._began:.0f} s.")
        if not keep:
            view.say("`make run ARGS=--keep` leaves it running; docs/tutorial.md goes on from here.")
            return
        program = os.path.join(os.path.dirname(sys.executable), "everlog")
        shown = os.path.relpath(program) if os.path.exists(program) else f"{sys.executable} -m everlog.cli"
        first = self.cluster.addresses[0]
        flag = "" if first.endswith(":9092") else f" -b {first}"
        view.say(f"It all goes on running at {bootstrap}. Try, in another terminal:")
        view.say(f"  {shown} consume orders --offset -5:end --format '%p %o %k %v\\n'{flag}")
        if pipeline is not None:
            view.say(f"  {shown} consume order-volume --exit-at-end --isolation read_committed{flag}")
            view.say(f"  {shown} group describe {VOLUME_GROUP}{flag}")
            view.say(f"  {shown} pipeline status {pipeline.project.root}{flag}")
            place = self._table_spec(pipeline.project).location
            view.say(f"  ls {place}        # docs/guides/tables.md says who may read it")
        view.say(f"  {shown} perf produce perf-test{flag}")
        view.say("or any Kafka client. Ctrl-C stops it.")
        self.cluster.serve_on()


if __name__ == "__main__":
    main()
