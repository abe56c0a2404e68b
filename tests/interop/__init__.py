import pytest

pytest.register_assert_rewrite("interop.shelf")
