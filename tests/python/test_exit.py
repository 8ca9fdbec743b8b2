"""A process ends well while threads compute and plans and arrays live."""

from __future__ import annotations

import pytest

from fake_driver import needs_fake_driver, run_on_fake

EXIT = """
import threading
import numpy as np
import deepgemm

x = deepgemm.DeviceArray.from_numpy(np.ones((256, 256), np.float32))
out = deepgemm.gemm(x, x)
held = deepgemm.plan("gemm", x, x)


def work():
    for _ in range(1_000_000):
        deepgemm.gemm(x, x, out)
        held(x, x, out=out)


for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
"""

pytestmark = needs_fake_driver


@pytest.mark.parametrize("_", range(5))
def test_daemon_threads_may_be_computing(tmp_path, _):
    """Such a thread was made to exit inside a call, which aborted the process."""
    done = run_on_fake(tmp_path, "-c", EXIT)
    assert (done.returncode, done.stderr) == (0, "")
