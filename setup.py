"""The compiled kernels; all else about the package is in pyproject.toml.

The extension is optional: without a compiler the installation succeeds and the plain Python twins
serve. It is built against the stable ABI, so that one wheel serves every Python from 3.11 on.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "everlog.records._kernel",
            sources=["src/everlog/records/_kernel.c", "src/everlog/records/kernel_keys.c"],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
