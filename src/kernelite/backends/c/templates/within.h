/* Whether every bound is within its tolerance. */
static inline int NAME_within(const double *bounds)
{
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++)
        if (!(bounds[k] <= NAME_tolerance[k]))
            return 0;
    return 1;
}
