/* The exact model of a polynomial of degree 4: q'Mq with the products q of two of (x, 1). M is one
   triangle, row by row, its entries off the diagonal doubled. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    REAL q[(NAME_WIDTH + 1) * (NAME_WIDTH + 2) / 2];
    int i, j, k, count = 0;
    for (i = 0; i <= NAME_WIDTH; i++)
        for (j = i; j <= NAME_WIDTH; j++)
            q[count++] = (i < NAME_WIDTH ? x[i] : 1) * (j < NAME_WIDTH ? x[j] : 1);
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const REAL *m = NAME_tensor[k];
        scores[k] = 0;
        for (i = 0; i < count; i++) {
            REAL inner = 0;
            for (j = i; j < count; j++)
                inner += *m++ * q[j];
            scores[k] += q[i] * inner;
        }
        scores[k] += NAME_intercept[k];
    }
}
