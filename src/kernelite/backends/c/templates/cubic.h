/* The exact model of a polynomial of degree 3: T(w, w, w) with w = (x, 1), its entries in the order
   of their three indices. */
static inline void NAME_exact(const REAL *x, REAL *scores)
{
    REAL w[NAME_WIDTH + 1];
    int i, j, k, l;
    for (i = 0; i < NAME_WIDTH; i++)
        w[i] = x[i];
    w[NAME_WIDTH] = 1;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const REAL *t = NAME_tensor[k];
        scores[k] = 0;
        for (i = 0; i <= NAME_WIDTH; i++) {
            REAL outer = 0;
            for (j = i; j <= NAME_WIDTH; j++) {
                REAL inner = 0;
                for (l = j; l <= NAME_WIDTH; l++)
                    inner += *t++ * w[l];
                outer += w[j] * inner;
            }
            scores[k] += w[i] * outer;
        }
        scores[k] += NAME_intercept[k];
    }
}
