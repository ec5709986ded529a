"""Floating-point arithmetic: f64 and f32, f16 and bf16, with every rounding."""
