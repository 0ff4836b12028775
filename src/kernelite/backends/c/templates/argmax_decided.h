/* Whether the winner's lower end is above every rival's upper end. */
static inline int NAME_proven(const double *scores, const double *bounds)
{
    const int best = NAME_winner(scores);
    const double low = scores[best] - bounds[best];
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        const double high = scores[k] + bounds[k];
        if (k != best && !(low - high > 2e-15 * (fabs(low) + fabs(high))))
            return 0;
    }
    return 1;
}
