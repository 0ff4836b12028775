/* A bound on the error of each score: rho sqrt(P(3, t)), t = 2 gamma |u|^2, plus rounding. P is the
   regularised lower incomplete gamma function; min(t^3 / 6, 1 - e^-t (1 + t + t^2 / 2) + 1e-12) is
   not below it. It holds for IEEE doubles; do not compile with -ffast-math. */
static inline double NAME_remainder(double square)
{
    const double t = NAME_TWICE_GAMMA * square;
    double near, far;
    if (!(t < 1500.0))
        return 1.0 + 1e-12;
    near = t * sqrt(t) * 0.408248290468;
    far = 1.0 + 1e-12 - exp(-t) * (1.0 + t + 0.5 * t * t);
    far = sqrt(far > 1e-12 ? far : 1e-12);
    return near < far ? near : far;
}
