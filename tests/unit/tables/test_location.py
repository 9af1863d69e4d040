"""Places as Spark spells them: what is a path of this machine, and what other libraries call the rest."""

from pathlib import Path

from everlog.tables.location import for_libraries, local_path, local_uri


def test_only_files_of_this_machine_have_a_path() -> None:
    assert local_path("lake/orders") == Path("lake/orders")
    assert local_path("/tmp/a:/b") == Path("/tmp/a:/b")
    assert local_path("C:/lake") == Path("C:/lake")
    assert local_path("file:/tmp/lake") == local_path("file:///tmp/lake") == Path("/tmp/lake")
    for elsewhere in ("hdfs://name/lake", "s3a://bucket/lake", "dbfs:/lake"):
        assert local_path(elsewhere) is None


def test_a_uri_of_this_machine_is_taken_to_the_letter_as_spark_does() -> None:
    assert local_path("file:///tmp/my%20pröject #1?") == Path("/tmp/my%20pröject #1?")
    for path in (Path("/tmp/my pröject #1?"), Path("/tmp/my%20project")):
        assert local_path(local_uri(path)) == path


def test_what_hadoop_calls_s3a_others_call_s3() -> None:
    assert for_libraries("s3a://bucket/a b") == for_libraries("s3n://bucket/a b") == "s3://bucket/a b"
    for same in ("s3://bucket/x", "hdfs://name/s3a://x", "/tmp/s3a"):
        assert for_libraries(same) == same
