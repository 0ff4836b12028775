/* The probabilities of a row's classes: NAME_PROBABILITIES of them, in the order of the labels. */
static inline void NAME_probability(const REAL *x, REAL *probabilities)
{
    REAL scores[NAME_OUTPUTS];
    NAME_score(x, scores);
    NAME_likely(scores, probabilities);
}
