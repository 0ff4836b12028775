/* The values of a row of NAME_FEATURES numbers: NAME_VALUES of them. */
static inline void NAME_value(const REAL *x, REAL *values)
{
    REAL scores[NAME_OUTPUTS];
    NAME_score(x, scores);
    NAME_values(scores, values);
}
