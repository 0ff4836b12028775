/* The exact model: a kernel value for each support vector. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    int i, j, k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        scores[k] = 0;
    for (i = 0; i < NAME_CENTERS; i++) {
        REAL kernel = 0;
        for (j = 0; j < NAME_FEATURES; j++)
            kernel += NAME_TERM(x[j], NAME_center[i][j]);
        kernel = NAME_KERNEL(kernel);
        for (k = 0; k < NAME_OUTPUTS; k++)
            scores[k] += NAME_coefficient[i][k] * kernel;
    }
    for (k = 0; k < NAME_OUTPUTS; k++)
        scores[k] += NAME_intercept[k];
}
