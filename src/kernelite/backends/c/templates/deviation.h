/* The standard deviations of a row's values: NAME_DEVIATIONS of them. */
static inline void NAME_deviation(const REAL *x, REAL *deviations)
{
    REAL variances[NAME_VARIANCES];
    NAME_variance(x, variances);
    NAME_spread(variances, deviations);
}
