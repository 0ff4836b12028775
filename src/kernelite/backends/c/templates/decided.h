/* Bounds on the errors of NAME_score: NAME_OUTPUTS of them. */
static inline void NAME_score_bound(const double *x, double *bounds)
{
    double scores[NAME_OUTPUTS];
    NAME_ROW(x);
    NAME_bounded(row, scores, bounds);
}

/* 1 where the answer is proven to be the exact model's (or within the tolerance), else 0. */
static inline int NAME_decided(const double *x)
{
    double scores[NAME_OUTPUTS], bounds[NAME_OUTPUTS];
    NAME_ROW(x);
    NAME_bounded(row, scores, bounds);
    return NAME_settled(scores, bounds);
}
