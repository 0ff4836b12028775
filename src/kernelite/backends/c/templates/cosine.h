/* The exact model of a cosine kernel: a row of length one, times one row of weights per output. The
   row is divided twice, so that no square is lost. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    REAL unit[NAME_WIDTH], size = 0, norm = 0;
    int j, k;
    for (j = 0; j < NAME_WIDTH; j++)
        if (MATH_fabs(x[j]) > size)
            size = MATH_fabs(x[j]);
    for (j = 0; j < NAME_WIDTH; j++) {
        unit[j] = size > 0 ? x[j] / size : 0;
        norm += unit[j] * unit[j];
    }
    norm = norm > 0 ? MATH_sqrt(norm) : 1;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        scores[k] = 0;
        for (j = 0; j < NAME_WIDTH; j++)
            scores[k] += NAME_weight[k][j] * (unit[j] / norm);
        scores[k] += NAME_intercept[k];
    }
}
