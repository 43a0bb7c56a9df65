// Did the trim help? The experiment of measuring the same load before and after, judged.
#pragma once

#include "core/history.hpp"

namespace nvmaint::core {

// `before` and `after` were summarised against the same yardstick (the usual flush time before).
// Not comparable where either is too short, has too few flushes, or the load differs by more than a
// factor two.
[[nodiscard]] TrimEffect judge_effect(const FlushSummary& before, const FlushSummary& after);

// Whether more watching would not change the verdict: enough was seen, or it cannot be compared at
// all.
[[nodiscard]] bool effect_firm(const TrimEffect& effect);

// Whether watching longer is not expected to change the verdict. Helped and Worse are firm as they
// stand (their test was passed), NoChange once a cure would have shown; NotComparable never is.
[[nodiscard]] bool effect_firm(const TrimEffect& effect);

// How long to watch after a trim: until the verdict is firm, between these.
inline constexpr seconds kEffectShortest{60};
inline constexpr seconds kEffectLongest{600};

} // namespace nvmaint::core
