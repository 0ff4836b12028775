/* The exact log-density: the logarithm of a sum of bumps, in which the largest one counts as 1. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    REAL top = -INFINITY, sum = 0;
    int i;
    for (i = 0; i < NAME_CENTERS; i++) {
        const REAL exponent = NAME_kernel(x, NAME_center[i]) + NAME_coefficient[i][0];
        if (exponent > top) {
            sum = sum * MATH_exp(top - exponent) + 1;
            top = exponent;
        } else if (exponent > -INFINITY) {
            sum += MATH_exp(exponent - top);
        }
    }
    scores[0] = top + MATH_log(sum) + NAME_LOG_SCALE;
}
