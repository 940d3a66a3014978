import pytest
import tensorflow as tf


@pytest.fixture(params=["bfloat16", "float16"])
def mixed_precision(request):
    """The test's models are made under a global policy of mixed precision; gives the type to compute in."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(f"mixed_{request.param}")
    yield request.param
    tf.keras.mixed_precision.set_global_policy(before)
