"""The compiled kernels; all else about the package is in pyproject.toml.

The extensions are optional: without a compiler the installation succeeds and plain Python serves. They are
built against the stable ABI, so that one wheel serves every Python from 3.11 on.
"""

from setuptools import Extension, setup


def kernel(package: str, *sources: str, name: str = "_kernel") -> Extension:
    """An extension of a package, made of C files beside its Python ones."""
    folder = "src/" + package.replace(".", "/")
    return Extension(
        f"{package}.{name}",
        sources=[f"{folder}/{source}" for source in sources],
        extra_compile_args=["-O3"],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[
        kernel("everlog.records", "_kernel.c", "kernel_crc.c", "kernel_keys.c"),
        kernel(
            "everlog.records",
            "_columns.c",
            "columns_checksum.c",
            "columns_decode.c",
            "columns_encode.c",
            "columns_route.c",
            "columns_run.c",
            name="_columns",
        ),
        kernel(
            "everlog.records",
            "_rows.c",
            "rows_buffer.c",
            "rows_inlet.c",
            "rows_record.c",
            "rows_run.c",
            name="_rows",
        ),
        kernel("everlog.edge", "_appender.c", name="_appender"),
        kernel("everlog.broker", "_lanes.c", "lane.c", name="_lanes"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
