/* The label of a row of NAME_FEATURES numbers. */
static inline LABEL NAME_label(const REAL *x)
{
    REAL scores[NAME_OUTPUTS];
    NAME_score(x, scores);
    return NAME_labels[NAME_winner(scores)];
}
