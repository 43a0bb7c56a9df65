// The experiment: the same load before and after a trim, counted against the same yardstick.
//
// Stalled seconds come in bursts, so the flushes in them are not independent and no test may count
// them one by one. Episodes are: their numbers are compared as two Poisson rates by the conditional
// binomial test (Przyborowski and Wilenski, 1940). Under "nothing changed", of the n episodes in
// both stretches each lies in the later one with probability q = after / (before + after), whatever
// the rate. Worked example: 5 episodes in 180 s before, none in 120 s after: q = 0.4, and
// P(none after) = 0.6^5 = 0.078: not enough, watch on; after 150 s it is 0.048. Episodes that come
// at a rhythm vary less than Poisson's, so the test errs to the careful side.
//
// The share of flushes in stalled seconds must agree with the episodes: it halves at least.
#include "core/effect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nvmaint::core {

namespace {

constexpr double kSignificance = 0.05; // convention; the cost of an error is one more look
// Judgement: what stalls less than 1 % of the flushes is nothing that a trim could visibly cure.
constexpr double kLeastShare = 0.01;
constexpr double kHalved = 0.5;
// Of the stretch with more of them. One episode is no rate, however long the other stretch.
constexpr unsigned kFewestEpisodes = 2;
// After the trim, for "as before".
constexpr unsigned kFewestAsBefore = 3;
constexpr seconds kFewestSeconds{60};
constexpr std::uint64_t kFewestFlushes = 60; // one a second
constexpr double kLoadFactor = 2;
// A drive that stalls is expected to do so once a minute or more often (bursts every 20-60 s).
constexpr double kExpectedEvery = 60;

double in_seconds(nanoseconds t) {
    return static_cast<double>(t.count()) / 1e9;
}

double stalled_share(const FlushSummary& s) {
    return s.flushes == 0 ? 0
                          : static_cast<double>(s.stalled_flushes) / static_cast<double>(s.flushes);
}

// Load is compared outside the stalls: within them a closed loop asks for less because it waits.
double load(const FlushSummary& s) {
    if (s.calm_rate > 0) {
        return s.calm_rate;
    }
    return s.length > nanoseconds::zero() ? static_cast<double>(s.flushes) / in_seconds(s.length)
                                          : 0;
}

// P(X <= k), X binomial of n trials with probability q.
double binomial_at_most(unsigned k, unsigned n, double q) {
    if (k >= n) {
        return 1;
    }
    if (q <= 0 || q >= 1) {
        return q <= 0 ? 1 : 0;
    }
    // Term by term in logarithms: the first one alone underflows from some hundred trials on.
    const double odds = std::log(q) - std::log1p(-q);
    double log_term = n * std::log1p(-q);
    double sum = std::exp(log_term);
    for (unsigned i = 1; i <= k; ++i) {
        log_term += std::log((n - i + 1.0) / i) + odds;
        sum += std::exp(log_term);
    }
    return std::min(1.0, sum);
}

double share_of_after(const FlushSummary& before, const FlushSummary& after, double rate_ratio) {
    const double b = in_seconds(before.length);
    const double a = in_seconds(after.length) * rate_ratio;
    return a / (a + b);
}

// Why the two cannot be compared; empty = they can.
std::string not_comparable(const FlushSummary& before, const FlushSummary& after) {
    const auto thin = [](const FlushSummary& s) {
        return s.length < kFewestSeconds || s.flushes < kFewestFlushes;
    };
    const auto saying = [](const FlushSummary& s) {
        return fmt::format("{} flushes in {}", s.flushes, humane(s.length));
    };
    if (thin(before)) {
        return fmt::format("too little before the trim: {}", saying(before));
    }
    if (thin(after)) {
        return fmt::format("too little after the trim: {}", saying(after));
    }
    const double b = load(before);
    const double a = load(after);
    if (a > kLoadFactor * b || b > kLoadFactor * a) {
        return fmt::format("the load differs: {:.1f} flushes a second before, {:.1f} after", b, a);
    }
    return {};
}

std::string counts(const FlushSummary& before, const FlushSummary& after) {
    return fmt::format("{} stalls in {} before, {} in {} after; {:.1f} % of the flushes stalled "
                       "before, {:.1f} % after",
                       before.episodes, humane(before.length), after.episodes, humane(after.length),
                       100 * stalled_share(before), 100 * stalled_share(after));
}

} // namespace

TrimEffect judge_effect(const FlushSummary& before, const FlushSummary& after) {
    TrimEffect out;
    out.before = before;
    out.after = after;
    if (out.why = not_comparable(before, after); !out.why.empty()) {
        return out;
    }
    const unsigned n = before.episodes + after.episodes;
    const double share_before = stalled_share(before);
    const double share_after = stalled_share(after);
    const double q = share_of_after(before, after, 1);
    const double fewer = binomial_at_most(after.episodes, n, q);
    const double more = binomial_at_most(before.episodes, n, 1 - q);
    if (before.episodes >= kFewestEpisodes && share_before >= kLeastShare &&
        share_after <= kHalved * share_before && fewer < kSignificance) {
        out.verdict = EffectVerdict::Helped;
        out.confidence = 1 - fewer;
        out.why = fmt::format("{} (two Poisson rates, p = {:.3f})", counts(before, after), fewer);
        return out;
    }
    if (after.episodes >= kFewestEpisodes && share_after >= kLeastShare &&
        share_before <= kHalved * share_after && more < kSignificance) {
        out.verdict = EffectVerdict::Worse;
        out.confidence = 1 - more;
        out.why = fmt::format("{} (two Poisson rates, p = {:.3f})", counts(before, after), more);
        return out;
    }
    out.verdict = EffectVerdict::NoChange;
    if (n == 0) {
        const double p =
            std::exp(-(in_seconds(before.length) + in_seconds(after.length)) / kExpectedEvery);
        out.confidence = 1 - p;
        out.why =
            fmt::format("no stall before, none after; a drive that stalls once a minute would "
                        "show none in {} with p = {:.3f}",
                        humane(before.length + after.length), p);
        return out;
    }
    // Had the trim halved the stalls, how likely were as many as came?
    const double half = share_of_after(before, after, kHalved);
    const double p = after.episodes == 0 ? 1 : 1 - binomial_at_most(after.episodes - 1, n, half);
    out.confidence = 1 - p;
    out.why = fmt::format("{} (were they halved, so many would come with p = {:.3f})",
                          counts(before, after), p);
    return out;
}

bool effect_firm(const TrimEffect& effect) {
    switch (effect.verdict) {
    case EffectVerdict::Helped:
    case EffectVerdict::Worse:
        return true;
    case EffectVerdict::NotComparable:
        return false;
    case EffectVerdict::NoChange:
        break;
    }
    const double expected =
        effect.before.episodes * in_seconds(effect.after.length) / in_seconds(effect.before.length);
    if (stalled_share(effect.before) < kLeastShare || effect.before.episodes == 0) {
        // Nothing to cure: firm once what came after is no different.
        return effect.after.episodes == 0 && effect.after.length >= kEffectShortest;
    }
    // A cure leaves hardly any: as many as 60 % of the old rate, from three on, are none.
    return effect.after.episodes >= kFewestAsBefore && effect.after.episodes >= 0.6 * expected &&
           effect.after.length >= 2 * kEffectShortest;
}

} // namespace nvmaint::core
