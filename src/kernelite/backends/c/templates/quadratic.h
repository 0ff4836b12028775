/* One form: f = exp(-gamma |u|^2) (c + v.u + u'Mu) + b with u = x - p. M is one triangle, row by
   row, its entries off the diagonal doubled. Returns |u|^2. */
static inline REAL NAME_form(const REAL *x, REAL *scores, REAL *damping, REAL *kept)
{
    REAL u[NAME_WIDTH], square = 0;
    int i, j, k;
    for (i = 0; i < NAME_WIDTH; i++) {
        u[i] = x[i] - NAME_point[i];
        square += u[i] * u[i];
    }
    *kept = square;
    *damping = NAME_DAMPING(square);
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const REAL *m = NAME_triangle[k];
        REAL g = NAME_constant[k];
        for (i = 0; i < NAME_WIDTH; i++) {
            REAL inner = NAME_linear[k][i];
            for (j = i; j < NAME_WIDTH; j++)
                inner += *m++ * u[j];
            g += u[i] * inner;
        }
        /* Where the exponential is zero, g may have overflowed. */
        scores[k] = (*damping > 0 ? g * *damping : 0) + NAME_intercept[k];
    }
    return square;
}
