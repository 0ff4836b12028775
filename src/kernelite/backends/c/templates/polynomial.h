/* Adds the model's polynomial of a row to its scores. */
static inline void NAME_polynomial(const REAL *x, REAL *scores)
{
    int t, j, k, p;
    for (t = 0; t < NAME_TERMS; t++) {
        REAL term = 1;
        for (j = 0; j < NAME_FEATURES; j++)
            for (p = 0; p < NAME_power[t][j]; p++)
                term *= (x[j] - NAME_origin[j]) / NAME_unit[j];
        for (k = 0; k < NAME_OUTPUTS; k++)
            scores[k] += NAME_beta[t][k] * term;
    }
}
