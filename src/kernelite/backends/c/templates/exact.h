/* The exact model: a kernel value for each support vector. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    int i, k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        scores[k] = 0;
    for (i = 0; i < NAME_CENTERS; i++) {
        const REAL kernel = NAME_kernel(x, NAME_center[i]);
        for (k = 0; k < NAME_OUTPUTS; k++)
            scores[k] += NAME_coefficient[i][k] * kernel;
    }
    for (k = 0; k < NAME_OUTPUTS; k++)
        scores[k] += NAME_intercept[k];
}
