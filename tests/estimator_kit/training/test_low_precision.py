"""The warning about a machine that is not fast in 16 bits."""

from __future__ import annotations

import pytest

from estimator_kit.training import run_config


@pytest.mark.parametrize(
    ("precision", "gpus", "flags", "doubtful"),
    [
        ("bfloat16", 0, "avx2 avx512f", True),
        ("bfloat16", 0, "avx512f amx_bf16", False),
        ("float16", 0, "amx_bf16", True),
        ("float16", 0, "avx512_fp16", False),
        ("float16", 1, "", False),
    ],
)
def test_a_machine_is_doubted(precision, gpus, flags, doubtful):
    warning = run_config.precision_warning(precision, gpus=gpus, flags=frozenset(flags.split()))
    assert bool(warning) is doubtful
    if doubtful and precision == "bfloat16":
        assert warning == (
            "--mixed_precision=bfloat16: this machine has no GPU, and its CPU has no instructions "
            "for bfloat16 (amx_bf16, avx512_bf16). Training will probably be slower than without "
            "the flag."
        )


def test_the_instructions_of_a_cpu(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: X\nflags\t\t: fpu amx_bf16\n\nflags\t: other\n")
    assert run_config.cpu_flags(str(file)) == {"fpu", "amx_bf16"}
    assert run_config.cpu_flags(str(tmp_path / "none")) == frozenset()
