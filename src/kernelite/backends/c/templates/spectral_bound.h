/* As the last, and what was left out of M: at most (spread |v|^2 + 2 cross |y| |v|) e^(-gamma |u|^2)
   with |v|^2 = |u|^2 - |y|^2. */
static inline void NAME_bounded(const double *x, double *scores, double *bounds)
{
    double damping, kept, square = NAME_form(x, scores, &damping, &kept);
    double remainder = NAME_REMAINDER(square);
    double rest = square > kept ? square - kept : 0.0;
    int k;
    for (k = 0; k < NAME_OUTPUTS; k++) {
        double lost = NAME_spread[k] * rest + NAME_twice_cross[k] * sqrt(kept * rest);
        bounds[k] = NAME_rho[k] * remainder + NAME_ROUNDING(k, square)
            + NAME_RELATIVE * fabs(scores[k]) + (damping > 0.0 ? lost * damping : 0.0);
    }
}
