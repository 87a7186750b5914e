"""Which configuration counts, what it may extend, and that a revision's counts where one is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config_cases import committed, git, repository, written
from planproof.config import ISOLATED, Settings, file_from_revision, load_settings, nearest_settings, settings_from_revision
from planproof.errors import UsageError


def names(settings: Settings) -> list[str]:
    return [layer.name for layer in settings.layers]


def values(settings: Settings, key: str) -> list[object]:
    return [entry.value for entry in settings.entries(key)]


def test_the_nearest_file_counts_and_nothing_above_it(tmp_path: Path) -> None:
    repository(tmp_path, {"planproof.toml": 'ignore = ["INT"]', "a/b/planproof.toml": 'select = ["EVI"]'})
    assert names(nearest_settings(tmp_path / "a" / "b" / "c" / "p.yaml")) == ["a/b/planproof.toml"]
    assert names(nearest_settings(tmp_path / "a" / "p.yaml")) == ["planproof.toml"]
    assert values(nearest_settings(tmp_path / "a/b/p.yaml"), "ignore") == []


def test_a_shared_file_counts_where_it_has_our_table_and_ours_comes_first(tmp_path: Path) -> None:
    repository(
        tmp_path,
        {
            "pyproject.toml": '[tool.planproof]\nfail-on = "note"\n',
            "a/pyproject.toml": '[project]\nname = "planproof"\n',
            "b/pyproject.toml": '[tool.planproof]\nfail-on = "warning"\n',
            "b/planproof.toml": 'fail-on = "never"\n',
        },
    )
    assert nearest_settings(tmp_path / "a" / "p.yaml").fail_on == "note"
    assert nearest_settings(tmp_path / "b" / "p.yaml").fail_on == "never"


def test_the_search_ends_at_the_checkout(tmp_path: Path) -> None:
    written(tmp_path, {"planproof.toml": 'fail-on = "never"'})
    assert nearest_settings(repository(tmp_path / "inner", {}) / "p.yaml") is ISOLATED
    assert nearest_settings(tmp_path / "other" / "p.yaml").fail_on == "never"


def test_layers_add_up_and_the_innermost_single_value_counts(tmp_path: Path) -> None:
    repository(
        tmp_path,
        {
            "planproof.toml": 'fail-on = "note"\nselect = ["ALL"]\nignore = ["INT004"]\nmandatory = ["MEM"]\n',
            "a/planproof.toml": 'extend = "../planproof.toml"\nselect = ["INT"]\nignore = ["INT005"]\n',
        },
    )
    found = nearest_settings(tmp_path / "a" / "p.yaml")
    assert names(found) == ["planproof.toml", "a/planproof.toml"]
    assert values(found, "select") == ["INT"]
    assert values(found, "ignore") == ["INT004", "INT005"]
    assert values(found, "mandatory") == ["MEM"]
    assert found.fail_on == "note"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"planproof.toml": 'extend = "a.toml"', "a.toml": 'extend = "planproof.toml"'}, "goes round: planproof.toml -> a.toml"),
        ({"planproof.toml": 'extend = "planproof.toml"'}, "goes round"),
        ({"planproof.toml": 'extend = "../x.toml"'}, "the path '../x.toml' leaves the repository"),
        ({"planproof.toml": 'extend = "a/../../x.toml"'}, "the path .* leaves the repository"),
        ({"planproof.toml": 'extend = "/etc/planproof.toml"'}, "not a relative path"),
        ({"planproof.toml": 'extend = "https://example.org/x.toml"'}, "not a relative path"),
        ({"planproof.toml": 'extend = ".git/config"'}, r"lies in \.git"),
        ({"planproof.toml": 'extend = "gone.toml"'}, "is no file"),
        ({"planproof.toml": 'extend = "pyproject.toml"', "pyproject.toml": "[project]\n"}, r"has no \[tool\.planproof\]"),
        ({"planproof.toml": 'extend = "a.toml"', "a.toml": "extend = "}, "not TOML"),
        (
            {"planproof.toml": 'extend = "0.toml"', **{f"{k}.toml": f'extend = "{k + 1}.toml"' for k in range(20)}},
            "more than 10 files",
        ),
    ],
)
def test_what_cannot_be_extended_is_refused_at_its_place(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        nearest_settings(repository(tmp_path, files) / "p.yaml")
    assert caught.value.place.line == 1
    assert caught.value.remedy


def test_a_link_that_leaves_the_repository_is_refused(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", {"x.toml": 'fail-on = "never"', "rules/a.yaml": "id: x"})
    root = repository(tmp_path / "in", {"planproof.toml": 'extend = "link.toml"', "a/planproof.toml": 'rules = ["../rules"]'})
    os.symlink(outside / "x.toml", root / "link.toml")
    os.symlink(outside / "rules", root / "rules")
    for path in (root / "p.yaml", root / "a" / "p.yaml"):
        with pytest.raises(UsageError, match="symbolic link"):
            nearest_settings(path)


def test_a_file_that_is_named_counts_in_place_of_the_nearest(tmp_path: Path) -> None:
    root = repository(tmp_path, {"planproof.toml": 'fail-on = "note"', "ci/strict.toml": 'fail-on = "warning"\n'})
    assert load_settings(root / "ci" / "strict.toml").fail_on == "warning"
    with pytest.raises(UsageError, match="is no file"):
        load_settings(root / "ci" / "gone.toml")


def test_folders_are_absolute_and_start_at_the_file_that_names_them(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a/planproof.toml": 'rules = ["house", "../all"]\nhardware = ["sheets"]\ntemplates = "."'})
    for name in ("a/house", "all", "a/sheets"):
        (root / name).mkdir(parents=True)
    found = nearest_settings(root / "a" / "p.yaml")
    assert found.rules == (str(root / "a" / "house"), str(root / "all"))
    assert found.hardware == (str(root / "a" / "sheets"),)
    assert found.templates == str(root / "a")
    (root / "all").rmdir()
    with pytest.raises(UsageError, match=r"`rules` names the folder '\.\./all', and there is none") as caught:
        nearest_settings(root / "a" / "p.yaml")
    assert (caught.value.place.line, caught.value.place.column) == (1, 19)


RULE = "id: XYZ001\n"


def test_a_revision_gives_its_own_configuration_and_its_own_folders(tmp_path: Path) -> None:
    root = committed(
        tmp_path / "repo",
        {
            "planproof.toml": 'fail-on = "note"\nrules = ["house/rules"]\n',
            "house/rules/a.yaml": RULE,
            "plans/p.yaml": "planproof: 1\n",
        },
    )
    written(root, {"planproof.toml": 'fail-on = "never"\n', "plans/planproof.toml": 'select = ["INT"]'})
    written(root, {"house/rules/a.yaml": "id: no\n", "house/rules/b.yaml": "id: no\n"})
    git(root, "commit", "-q", "-a", "-m", "change")
    into = tmp_path / "into"
    for path in (root / "plans" / "p.yaml", root / "plans" / "new" / "q.yaml"):
        found = settings_from_revision("base~1", path, into)
        assert (found.fail_on, found.revision, names(found)) == ("note", "base~1", ["planproof.toml"])
        (folder,) = found.rules
        assert {one.name: one.read_text() for one in Path(folder).iterdir()} == {"a.yaml": RULE}
        assert Path(folder).is_relative_to(into)
        assert found.entries("fail-on")[0].place.file == "base~1:planproof.toml"
    assert nearest_settings(root / "p.yaml").fail_on == "never"


def test_a_named_file_of_the_checkout_is_read_as_the_revision_has_it_and_one_outside_as_it_lies(tmp_path: Path) -> None:
    root = committed(tmp_path / "repo", {"ci/p.toml": 'fail-on = "note"\n'})
    written(root, {"ci/p.toml": 'fail-on = "never"\n', "ci/new.toml": 'fail-on = "never"\n'})
    outside = written(tmp_path / "out", {"o.toml": 'fail-on = "warning"\n'}) / "o.toml"
    into = tmp_path / "into"
    assert settings_from_revision("base", root / "p.yaml", into, config=root / "ci" / "p.toml").fail_on == "note"
    assert settings_from_revision("base", root / "p.yaml", into, config=outside).fail_on == "warning"
    with pytest.raises(UsageError, match="is no file in base"):
        settings_from_revision("base", root / "p.yaml", into, config=root / "ci" / "new.toml")


def test_a_link_in_a_revision_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    os.symlink("/etc/hostname", root / "planproof.toml")
    (root / "house").mkdir()
    os.symlink("/etc", root / "house" / "rules")
    committed(root, {"a/planproof.toml": 'rules = ["../house"]\n'})
    with pytest.raises(UsageError, match="symbolic link"):
        settings_from_revision("base", root / "p.yaml", tmp_path / "into")
    with pytest.raises(UsageError, match="no regular file"):
        settings_from_revision("base", root / "a" / "p.yaml", tmp_path / "into")


@pytest.mark.parametrize("base", ["nowhere", "--output=/tmp/x", "", "base:planproof.toml", "a\nb"])
def test_a_revision_that_does_not_exist_is_one_clear_error(tmp_path: Path, base: str) -> None:
    root = committed(tmp_path / "repo", {"planproof.toml": ""})
    with pytest.raises(UsageError, match="revision") as caught:
        settings_from_revision(base, root / "p.yaml", tmp_path / "into")
    assert caught.value.code == "usage.git"
    assert caught.value.remedy


def test_outside_a_checkout_a_revision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git") as caught:
        settings_from_revision("HEAD", tmp_path / "p.yaml", tmp_path / "into")
    assert "checkout" in (caught.value.remedy or "")


def test_a_file_is_read_as_a_revision_has_it(tmp_path: Path) -> None:
    root = committed(tmp_path / "repo", {"a/baseline.json": "{}"})
    written(root, {"a/baseline.json": "[]", "new.json": ""})
    assert file_from_revision("base", root / "a" / "baseline.json") == b"{}"
    assert file_from_revision("base", root / "new.json") is None
    assert file_from_revision("base", root / "a") is None


def test_what_is_no_regular_file_is_no_configuration(tmp_path: Path) -> None:
    root = repository(tmp_path, {})
    os.mkfifo(root / "planproof.toml")
    os.symlink("/dev/zero", root / "pyproject.toml")
    assert nearest_settings(root / "p.yaml") is ISOLATED
    (root / "a" / "planproof.toml").mkdir(parents=True)
    assert nearest_settings(root / "a" / "p.yaml") is ISOLATED
    written(root, {"b/pyproject.toml": "# planproof\n" + "#" * 400_000})
    with pytest.raises(UsageError, match="the limit is"):
        nearest_settings(root / "b" / "p.yaml")
