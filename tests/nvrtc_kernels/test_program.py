"""What makes two programs the same to the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels import Program
from nvrtc_kernels.program import INCLUDE, library_program

if TYPE_CHECKING:
    from pathlib import Path


def test_equal_programs_have_one_key() -> None:
    assert Program("a", options=("-DX",)) == Program("a", options=("-DX",))
    assert len({Program("a"), Program("a")}) == 1
    different = [
        Program("a"),
        Program("b"),
        Program("a", name="b.cu"),
        Program("a", options=("-DX",)),
        Program("a", include_dirs=("-DX",)),
        Program("a", headers=(("h", "x"),)),
        Program("a", name_expressions=("h",)),
        Program("a", line_info=True),
    ]
    assert len({program.key for program in different}) == len(different)


def test_a_changed_header_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "outer.h").write_text('#  include "inner.h"\n', encoding="utf-8")
    inner = tmp_path / "sub" / "inner.h"
    inner.parent.mkdir()
    inner.write_text("int a;", encoding="utf-8")
    (tmp_path / "unused.h").write_text("int u;", encoding="utf-8")
    directories = (str(tmp_path), str(inner.parent))
    by_argument = Program('#include "outer.h"\n', include_dirs=directories)
    by_option = Program("#include <outer.h>\n", options=tuple(f"-I{d}" for d in directories))
    before = by_argument.header_digest(), by_option.header_digest()
    (tmp_path / "unused.h").write_text("int v;", encoding="utf-8")
    assert (by_argument.header_digest(), by_option.header_digest()) == before
    inner.write_text("int b;", encoding="utf-8")
    assert by_argument.header_digest() != before[0]
    assert by_option.header_digest() != before[1]


def test_headers_that_include_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\n', encoding="utf-8")
    (tmp_path / "b.h").write_text('#include "a.h"\n', encoding="utf-8")
    assert Program('#include "a.h"', include_dirs=(str(tmp_path),)).header_digest()


def test_what_only_the_preprocessor_knows_has_no_digest() -> None:
    assert Program("#include WHAT\n").header_digest() is None
    assert Program("", options=("-include", "a.h")).header_digest() is None
    assert Program("#include <cuda_fp16.h>\n").header_digest() is not None


def test_headers_of_the_package_have_the_digest_that_other_files_have() -> None:
    source = '#include "elements.cuh"\n#include <softmax.cuh>\n'
    # One with a header of its own is looked through as any program is.
    other = Program(source, include_dirs=(INCLUDE,), headers=(("unused.h", ""),))
    assert library_program(source, "rows.cu", "-DX").header_digest() == other.header_digest()
    assert library_program('#include "rows.cuh"\n', "rows.cu").header_digest() != other.header_digest()
    assert library_program("#include WHAT\n", "rows.cu").header_digest() is None
