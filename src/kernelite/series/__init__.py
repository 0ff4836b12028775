"""Forms that replace an expansion, and what is proven about their error: mathematics, no engines.

The series about a point: `series` (the paper's), `spectral` (truncated), `packed` (polynomials),
`cubic` and `directional` (third order: in full, bounded, or as a product). `approximation` has a
form and what follows it, and how much of a sum over near centers may be left out. The proof:
`certificate` joins the `remainder` (of many centers, by `tensors`) and the `rounding`.
"""
