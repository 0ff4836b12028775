"""Forms that replace an expansion, and what is proven about their error: mathematics, no engines.

The series about a point: `series`, `quadratic`, `spectral` (truncated), `cubic` and `directional`
(third order); `cells` are several points. What is proven: `remainder`, `rounding`, `certificate`;
what is tested instead: `calibration`. `local` says how much of a sum may be left out.
"""
