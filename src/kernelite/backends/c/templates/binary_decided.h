/* Whether the sign of the score cannot change within the bound. */
static inline int NAME_proven(const double *scores, const double *bounds)
{
    return fabs(scores[0] - NAME_BOUNDARY) > bounds[0];
}
