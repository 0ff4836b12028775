#ifdef __FAST_MATH__
#error "this model's sums must not be reordered: compile without -ffast-math"
#endif
