/* Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them, by the form where its margin is
   above the tested threshold, else by the exact model. */
static inline void NAME_score(const REAL *x, REAL *scores)
{
    REAL damping, kept;
    NAME_ROW(x);
    NAME_form(row, scores, &damping, &kept);
    if (!(NAME_margin(scores) > NAME_THRESHOLD))
        NAME_exact(row, scores);
}
