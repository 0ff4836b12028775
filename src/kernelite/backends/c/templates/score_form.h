/* Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them. */
static inline void NAME_score(const REAL *x, REAL *scores)
{
    REAL damping, kept;
    NAME_ROW(x);
    NAME_form(row, scores, &damping, &kept);
    NAME_ADD(x, scores);
}
