"""The whole examination: in words, as JSON, as an exit code, and whatever happens in one part."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import pytest

from nogil_loader.doctor import PARTS, Diagnosis, Finding, Severity, as_json, as_text, examine, exit_code
from tests.scripts import RunScript


@dataclass(frozen=True)
class Told(Diagnosis):
    """A part with findings of given severities."""

    title = "Title"
    kinds: tuple[Severity, ...]

    def lines(self) -> list[str]:
        return ["  a fact"]

    def findings(self) -> list[Finding]:
        return [
            Finding(kind, f"{kind} is found", f"do {kind}" if kind != "ok" else "") for kind in self.kinds
        ]


def test_a_report_has_facts_findings_advice_and_a_summary() -> None:
    text = as_text({"one": Told(("ok", "warning")), "two": Told(("warning", "problem", "note"))})
    assert text.splitlines() == [
        "Title",
        "  a fact",
        "  ok       ok is found",
        "  warning  warning is found",
        "           -> do warning",
        "",
        "Title",
        "  a fact",
        "  warning  warning is found",
        "           -> do warning",
        "  problem  problem is found",
        "           -> do problem",
        "  note     note is found",
        "           -> do note",
        "",
        "1 problem (two); 2 warnings (one, two); 1 note (two)",
    ]


def test_nothing_to_tell_is_said_too() -> None:
    assert as_text({"one": Told(("ok",))}).endswith("\n\nall is as it should be")


@pytest.mark.parametrize("width", [1, 40, 60, 100])
def test_long_findings_are_wrapped_under_their_beginning_and_no_word_is_lost(width: int) -> None:
    finding = Finding("warning", "words " * 30 + "/a/path-with-hyphens/that/stays/whole", "advice " * 20)
    lines = finding.lines(width)
    assert max(map(len, lines)) <= max(width, 50)
    assert [line[:11].strip() for line in lines] == ["warning"] + [""] * (len(lines) - 1)
    assert " ".join(" ".join(lines).split()) == " ".join(
        f"warning {finding.found} -> {finding.advice}".split()
    )


@pytest.mark.parametrize(("kinds", "code"), [((), 0), (("ok", "note", "warning"), 0), (("ok", "problem"), 1)])
def test_only_a_problem_makes_the_exit_code_1(kinds: tuple[Severity, ...], code: int) -> None:
    assert exit_code({"part": Told(kinds)}) == code


def test_json_has_everything() -> None:
    told = json.loads(as_json({"part": Told(("note",))}))
    assert told == {
        "part": {
            "kinds": ["note"],
            "findings": [{"severity": "note", "found": "note is found", "advice": "do note"}],
        }
    }


@dataclass(frozen=True)
class Broken(Told):
    """A part whose findings fail."""

    def findings(self) -> list[Finding]:
        raise ZeroDivisionError("division by zero")


def test_a_part_that_fails_does_not_keep_the_others_from_being_told() -> None:
    def fail() -> Diagnosis:
        raise PermissionError("no entry")

    found = examine(
        ["system", "cpu", "shm"],
        examiners={"system": fail, "cpu": lambda: Broken(()), "shm": lambda: Told(("ok",))},
    )
    assert exit_code(found) == 0
    text = as_text(found)
    assert "the part 'system' could not be examined: PermissionError: no entry" in text
    assert "the part 'cpu' could not be examined: ZeroDivisionError: division by zero" in text
    assert "ok is found" in text
    assert json.loads(as_json(found))["system"]["failure"] == "PermissionError: no entry"


def test_an_argument_that_no_loader_takes_is_refused_before_anything_is_looked_at() -> None:
    with pytest.raises(ValueError, match="memory='4 apples'"):
        examine(["cpu"], memory="4 apples")


def test_this_machine_is_examined() -> None:
    found = examine()
    assert tuple(found) == PARTS
    facts = json.loads(as_json(found))
    share = facts["memory"]["share"]
    assert share["soft"] < share["hard"] <= share["reading"]["limit"]
    text = as_text(found)
    assert f"{facts['memory']['binding']} <- binds" in text
    assert text.count("<- binds") == 1
    assert "could not be examined" not in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_looking_imports_nothing_heavy_but_the_compiler_and_starts_no_thread(run_script: RunScript) -> None:
    result = run_script(
        """
        import os, sys
        from nogil_loader.doctor import PARTS, as_text, examine
        threads = len(os.listdir("/proc/self/task"))
        examine([part for part in PARTS if part != "compiler"])
        assert "numba" not in sys.modules
        as_text(examine())
        assert not {"torch", "cv2", "PIL", "skimage", "rich"} & set(sys.modules)
        assert len(os.listdir("/proc/self/task")) == threads
        """
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
