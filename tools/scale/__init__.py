"""Says how a training would scale: ``python -m tools.scale --model gpt2 --devices 8,64,512``.

The real step of one rank runs on a simulated device; ``docs/scaling.md`` is the guide.
"""
