/* The place of a row's label in NAME_labels. */
static inline int NAME_index(const REAL *x)
{
    REAL scores[NAME_OUTPUTS];
    NAME_score(x, scores);
    return NAME_winner(scores);
}

/* The label of a row of NAME_FEATURES numbers. */
static inline LABEL NAME_label(const REAL *x)
{
    return NAME_labels[NAME_index(x)];
}
