/* The exact model of a linear kernel: its support vectors add up to one row of weights per output. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    int j, k;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        scores[k] = 0;
        for (j = 0; j < NAME_WIDTH; j++)
            scores[k] += NAME_weight[k][j] * x[j];
        scores[k] += NAME_intercept[k];
    }
}
