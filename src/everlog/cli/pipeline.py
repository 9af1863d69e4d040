"""`everlog pipeline`: the group of commands; each is in a module of its own, `pipeline_…`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog pipeline init sales                   # a project in ./sales, with sample data
$ everlog pipeline seed sales                   # its topics, and the sample data in them
$ everlog pipeline run sales                    # once, on this machine
$ everlog pipeline run sales --continuous --master spark://10.0.0.5:7077
$ everlog pipeline status sales
"""

pipeline = LazyGroup(
    "pipeline",
    {
        "init": Lazy("everlog.cli.pipeline_init", "init", "Make a project from a template."),
        "seed": Lazy("everlog.cli.pipeline_seed", "seed", "Create a project's topics, write sample data."),
        "dry-run": Lazy("everlog.cli.pipeline_run", "dry_run", "Check a project's graph; run nothing."),
        "run": Lazy("everlog.cli.pipeline_run", "run", "Run a project on Spark, once or for ever."),
        "status": Lazy("everlog.cli.pipeline_status", "status", "Show the last run, flows, offsets and lag."),
    },
    "Declare and run data pipelines over topics on Spark.",
    examples=EXAMPLES,
)
