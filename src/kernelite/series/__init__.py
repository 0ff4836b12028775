"""Forms that replace an expansion, and what is proven about their error: mathematics, no engines.

The series about a point: `series` (the paper's), `spectral` (truncated), `packed` (polynomials),
`cubic` and `directional` (third order: in full, bounded, or as a product); `work` counts what each
takes. The proof: `remainder` (of many centers, by `tensors`) and `rounding`. `approximation` joins
them in a certificate: a form, what is known of its error, and what follows it; it says too how much
of a sum over near centers may be left out.
"""
