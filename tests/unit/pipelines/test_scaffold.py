import re
from pathlib import Path

import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines.scaffold import DEFAULT_TEMPLATE, create_project, templates


def test_the_default_template_is_listed_first() -> None:
    assert templates()[0].name == DEFAULT_TEMPLATE


@pytest.mark.parametrize("name", [template.name for template in templates()])
def test_every_template_becomes_a_project_that_can_be_loaded(tmp_path: Path, name: str) -> None:
    project = create_project(tmp_path / "mine", name)

    assert project.name == "mine"
    assert project.title
    assert project.declared_files() or project.stream_files()
    assert (tmp_path / "mine" / "everlog.toml").is_file()
    assert not (tmp_path / "mine" / "template.toml").exists()
    for path in [*project.declared_files(), *project.stream_files()]:
        # An address in a flow would keep it from moving to another cluster.
        assert not re.search(r"[\"'](?:127\.0\.0\.1|localhost):\d+", path.read_text()), path


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("!")

    with pytest.raises(ConfigError, match="exists and is not empty"):
        create_project(tmp_path / "mine")

    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["precious"]


def test_an_unknown_template_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no template 'windoze': expected one of {DEFAULT_TEMPLATE}"):
        create_project(tmp_path / "mine", "windoze")
    with pytest.raises(ConfigError, match="project name 'a b' will not do"):
        create_project(tmp_path / "a b")
