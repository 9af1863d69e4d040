"""The compiled kernels; all else about the package is in pyproject.toml.

The extensions are optional: without a compiler the installation succeeds and plain Python serves. They are
built against the stable ABI, so that one wheel serves every Python from 3.11 on.
"""

from setuptools import Extension, setup


def kernel(package: str, *sources: str) -> Extension:
    """The extension `_kernel` of a package, made of C files beside its Python ones."""
    folder = "src/" + package.replace(".", "/")
    return Extension(
        f"{package}._kernel",
        sources=[f"{folder}/{source}" for source in sources],
        extra_compile_args=["-O3"],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[
        kernel("everlog.records", "_kernel.c", "kernel_keys.c"),
        kernel("everlog.wire.hot", "_kernel.c"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
