/* Index of the class: LIBSVM's and scikit-learn's rule for a score on the boundary. */
static inline int NAME_winner(const REAL *scores)
{
    return NAME_IS_FIRST(scores[0]) ? 0 : 1;
}
