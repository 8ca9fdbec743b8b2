"""`deepgemm bench call` on the fake driver."""

from __future__ import annotations

from pathlib import Path

from deepgemm.bench import report
from fake_driver import needs_fake_driver, run_on_fake


@needs_fake_driver
def test_a_row_for_each_path(tmp_path: Path) -> None:
    file = tmp_path / "call.json"
    arguments = ("-m", "deepgemm", "bench", "call", "--repeat", "3", "--json", str(file))
    done = run_on_fake(tmp_path / "cache", *arguments)
    assert done.returncode == 0, done.stderr
    assert "arrays: deepgemm.DeviceArray" in done.stdout
    content = report.load(file)
    assert not report.problems(content)
    assert [row["path"] for row in content["rows"]] == ["python", "plan", "cpp"]
    for row in content["rows"]:
        assert row["us"] > 0
        assert row["launch_us"] > 0
    assert len({row["launch_us"] for row in content["rows"]}) == 1
