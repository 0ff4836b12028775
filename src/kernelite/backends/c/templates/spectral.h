/* One form on a basis V of few columns: f = exp(-gamma |u|^2) (c + v.u + mid |u|^2 + y'Cy) + b with
   u = x - p and y = V'u. C is one triangle, its entries off the diagonal doubled. Returns |u|^2. */
static inline REAL NAME_form(const REAL *x, REAL *scores, REAL *damping, REAL *kept)
{
    REAL u[NAME_WIDTH], y[NAME_RANK], square = 0;
    int i, j, k;
    for (j = 0; j < NAME_RANK; j++)
        y[j] = 0;
    for (i = 0; i < NAME_WIDTH; i++) {
        u[i] = x[i] - NAME_point[i];
        square += u[i] * u[i];
        for (j = 0; j < NAME_RANK; j++)
            y[j] += NAME_basis[i][j] * u[i];
    }
    *kept = 0;
    for (j = 0; j < NAME_RANK; j++)
        *kept += y[j] * y[j];
    *damping = NAME_DAMPING(square);
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const REAL *m = NAME_core[k];
        REAL g = NAME_constant[k] + NAME_mid[k] * square;
        for (i = 0; i < NAME_WIDTH; i++)
            g += NAME_linear[k][i] * u[i];
        for (i = 0; i < NAME_RANK; i++) {
            REAL inner = 0;
            for (j = i; j < NAME_RANK; j++)
                inner += *m++ * y[j];
            g += y[i] * inner;
        }
        /* Where the exponential is zero, g may have overflowed. */
        scores[k] = (*damping > 0 ? g * *damping : 0) + NAME_intercept[k];
    }
    return square;
}
