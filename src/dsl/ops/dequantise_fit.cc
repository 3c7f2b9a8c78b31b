// SPDX-License-Identifier: Apache-2.0
//
// Scales of blocks of quantised weights, from the words alone. The largest word is tried as a multiple of the scale by
// each level that a quantiser may give the largest weight; every further word, taken for the level nearest to it,
// leaves an interval of scales that would have been rounded to it. Most wrong guesses end after two or three words.
#include <algorithm>
#include <bit>
#include <cmath>

#include "dsl/ops/dequantise.h"

namespace brevis::dsl {

using bits::ScaledFloat;

namespace {

constexpr int kZeroPlace = bits::kZeroLevel, kNegativeZero = bits::kNegativeZeroLevel;  // k stands at 256 + k
constexpr int kMostInteger = 255, kLeastInteger = -254;
constexpr uint64_t kMisfitsOf = 16;  // words that a scale need not give: one in so many

// A float of eight bits, of `fraction` bits behind the leading one.
float small_float(unsigned code, int fraction, int bias) {
  const int exponent = static_cast<int>(code & 0x7f) >> fraction,
            digits = static_cast<int>(code) & ((1 << fraction) - 1);
  const int whole = exponent == 0 ? digits : digits | 1 << fraction;
  const double size = std::ldexp(whole, std::max(exponent, 1) - bias - fraction);
  return static_cast<float>((code & 0x80) != 0 ? -size : size);
}

LevelTable make_levels(LevelKind kind) {
  LevelTable out{};
  switch (kind) {
    case LevelKind::integer:
      out[kNegativeZero] = -0.0f;
      for (int k = kLeastInteger; k <= kMostInteger; ++k)
        out[static_cast<size_t>(kZeroPlace + k)] = static_cast<float>(k);
      break;
    case LevelKind::e4m3:
      for (unsigned code = 0; code < 256; ++code)
        if ((code & 0x7f) != 0x7f) out[code + 1] = small_float(code, 3, 7);
      break;
    case LevelKind::e5m2:
      for (unsigned code = 0; code < 256; ++code)
        if ((code & 0x7c) != 0x7c) out[code + 1] = small_float(code, 2, 15);
      break;
    case LevelKind::nf4: {
      // The quantiles of a normal law that QLoRA's data type names, as its published code rounds them.
      constexpr float kQuantiles[] = {-1.0f,
                                      -0.6961928009986877f,
                                      -0.5250730514526367f,
                                      -0.39491748809814453f,
                                      -0.28444138169288635f,
                                      -0.18477343022823334f,
                                      -0.09105003625154495f,
                                      0.0f,
                                      0.07958029955625534f,
                                      0.16093020141124725f,
                                      0.24611230194568634f,
                                      0.33791524171829224f,
                                      0.44070982933044434f,
                                      0.5626170039176941f,
                                      0.7229568362236023f,
                                      1.0f};
      std::copy(std::begin(kQuantiles), std::end(kQuantiles), out.begin() + 1);
      break;
    }
  }
  return out;
}

// Where zero and the zero with a sign stand.
struct Zeros {
  uint16_t plain, negative;
};
constexpr Zeros zeros_of(LevelKind kind) {
  switch (kind) {
    case LevelKind::integer: return {kZeroPlace, kNegativeZero};
    case LevelKind::nf4: return {8, kNoLevel};
    default: return {1, 129};
  }
}

// Coarse ones first: a finer one may give the same words. Where integers reach further down than up, the largest weight
// is taken for the lowest, so that a scale may be negative.
std::vector<float> anchors_of(LevelKind kind) {
  std::vector<float> out;
  switch (kind) {
    case LevelKind::integer:
      for (int k = 1; k <= 127; ++k)
        out.push_back(static_cast<float>(k > 1 && std::has_single_bit(unsigned(k)) ? -k : k));
      out.insert(out.end(), {-128, 255});
      break;
    case LevelKind::e4m3:
      for (unsigned code = 0x7e; code >= 0x70; --code) out.push_back(small_float(code, 3, 7));
      break;
    case LevelKind::e5m2:
      for (unsigned code = 0x7b; code >= 0x74; --code) out.push_back(small_float(code, 2, 15));
      break;
    case LevelKind::nf4:
      out = {1};
      for (uint16_t place = 16; place-- > 9;) out.push_back(levels_of(kind)[place]);
      break;
  }
  return out;
}

// The number of the fewest digits in an interval of positive normal numbers; 0 when it has none.
float simplest(double low, double high) {
  float from = static_cast<float>(low), to = static_cast<float>(high);
  if (from < low) from = std::nextafterf(from, INFINITY);
  if (to > high) to = std::nextafterf(to, 0);
  if (!(from <= to) || !(from > 0)) return 0;
  const auto least = std::bit_cast<uint32_t>(from), most = std::bit_cast<uint32_t>(to);
  for (unsigned zeros = 23; zeros > 0; --zeros)
    if (const uint32_t word = most >> zeros << zeros; word >= least) return std::bit_cast<float>(word);
  return to;
}

}  // namespace

const LevelTable& levels_of(LevelKind kind) {
  static const std::array<LevelTable, std::size(kLevelKinds)> tables{
      make_levels(LevelKind::integer), make_levels(LevelKind::e4m3), make_levels(LevelKind::e5m2),
      make_levels(LevelKind::nf4)};
  return tables[static_cast<size_t>(kind)];
}

namespace {

std::vector<std::pair<double, uint16_t>> make_ascending(LevelKind kind) {
  const LevelTable& levels = levels_of(kind);
  std::vector<std::pair<double, uint16_t>> out{{0, zeros_of(kind).plain}};
  for (size_t place = 1; place < kLevelPlaces; ++place)
    if (levels[place] != 0) out.emplace_back(levels[place], static_cast<uint16_t>(place));
  std::sort(out.begin(), out.end());
  return out;
}

const std::vector<std::pair<double, uint16_t>>& ascending_of(LevelKind kind) {
  static const std::array<std::vector<std::pair<double, uint16_t>>, std::size(kLevelKinds)> lists{
      make_ascending(LevelKind::integer), make_ascending(LevelKind::e4m3), make_ascending(LevelKind::e5m2),
      make_ascending(LevelKind::nf4)};
  return lists[static_cast<size_t>(kind)];
}

}  // namespace

bool is_scale(uint32_t f32) {
  const uint32_t exponent = f32 >> 23 & 0xff;
  return (f32 & 0x7fffffff) == 0 || (exponent >= 64 && exponent <= 190);
}

ScaleFinder::ScaleFinder(LevelKind kind, ScaledFloat type)
    : kind_(kind),
      type_(type),
      levels_(levels_of(kind)),
      sign_(uint32_t{1} << (width_of(type) - 1)),
      infinite_(type == ScaledFloat::f32    ? 0x7f800000
                : type == ScaledFloat::bf16 ? 0x7f80
                                            : 0x7c00),
      ascending_(ascending_of(kind)),
      anchors_(anchors_of(kind)) {
  for (size_t place = 0; place < kLevelPlaces; ++place)
    if (levels_[place] != 0) parts_[place] = 1 / std::abs(static_cast<double>(levels_[place]));
}

namespace {

// A word without its sign.
template <ScaledFloat kType>
double value_of(uint32_t size) {
  if constexpr (kType == ScaledFloat::f32) return std::bit_cast<float>(size);
  if constexpr (kType == ScaledFloat::bf16) return std::bit_cast<float>(size << 16);
  return std::bit_cast<float>(size << 13) * 0x1p112;  // subnormal ones, too
}

// What a word of this size may have been before it was rounded.
template <ScaledFloat kType>
ScaleFinder::Interval before_rounding(uint32_t size) {
  const double value = value_of<kType>(size);
  const double low = (value_of<kType>(size - 1) + value) / 2, high = (value + value_of<kType>(size + 1)) / 2;
  if (size % 2 == 0) return {low, high};
  return {low * (1 + 0x1p-40), high * (1 - 0x1p-40)};  // halfway is rounded to even words
}

}  // namespace

inline uint16_t ScaleFinder::place_near(double level) const {
  if (kind_ == LevelKind::integer) {
    if (!(level > kLeastInteger && level < kMostInteger + 0.5)) return kNoLevel;
    return static_cast<uint16_t>(static_cast<int>(level + (kZeroPlace + 0.5)));
  }
  const auto above = std::lower_bound(ascending_.begin(), ascending_.end(), std::pair<double, uint16_t>(level, 0));
  if (above == ascending_.begin()) return above->second;
  const auto below = above - 1;
  if (above == ascending_.end()) return below->second;
  return level - below->first <= above->first - level ? below->second : above->second;
}

template <ScaledFloat kType>
bool ScaleFinder::narrow(std::span<const uint32_t> words, bool negative, Interval& scales,
                         std::vector<uint16_t>& places) const {
  const Zeros zeros = zeros_of(kind_);
  const double* parts = parts_.data();
  double inverse = 2 / (scales.low + scales.high);
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t size = words[i] & ~sign_;
    const bool below = ((words[i] & sign_) != 0) != negative;
    if (size == 0) {
      places[i] = below ? zeros.negative : zeros.plain;
      continue;
    }
    places[i] = kNoLevel;
    if (size >= infinite_) continue;
    const double level = value_of<kType>(size) * inverse;
    const uint16_t place = place_near(below ? -level : level);
    const double part = parts[place];
    if (part == 0) return false;
    const Interval from = before_rounding<kType>(size);
    const double low = from.low * part, high = from.high * part;
    places[i] = place;
    if (low <= scales.low && high >= scales.high) continue;
    const Interval both{std::max(scales.low, low), std::min(scales.high, high)};
    if (both.low > both.high) {
      // That products were rounded to F32 before may have moved one word in 2^16 over the edge.
      if (both.low > both.high * (1 + 0x1p-22)) return false;
      continue;
    }
    scales = both;
    inverse = 2 / (scales.low + scales.high);
  }
  return true;
}

bool ScaleFinder::prove(std::span<const uint32_t> words, float scale, std::vector<uint16_t>& places) {
  scales_.assign(words.size(), scale);
  given_.resize(words.size());
  bits::kernels().scale_levels[static_cast<size_t>(type_)](places.data(), levels_.data(), scales_.data(), given_.data(),
                                                           words.size());
  const bits::ConstWords given{reinterpret_cast<const uint8_t*>(given_.data()), words.size(),
                               static_cast<uint8_t>(width_of(type_))};
  uint64_t misfits = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (given.at(i) != words[i]) places[i] = kNoLevel;
    misfits += places[i] == kNoLevel;
  }
  return misfits * kMisfitsOf <= words.size();
}

template <ScaledFloat kType>
bool ScaleFinder::find_typed(std::span<const uint32_t> words, uint32_t& scale, std::vector<uint16_t>& places) {
  places.resize(words.size());
  uint32_t largest = 0;
  for (const uint32_t word : words) {
    const uint32_t size = word & ~sign_;
    if (size < infinite_ && size > (largest & ~sign_)) largest = word;
  }
  scale = 0;
  if ((largest & ~sign_) == 0) {
    Interval any{1, 1};
    return narrow<kType>(words, false, any, places) && prove(words, 0, places);
  }
  const Interval from = before_rounding<kType>(largest & ~sign_);
  for (size_t a = 0; a < anchors_.size(); ++a) {
    const float anchor = anchors_[a];
    const bool negative = anchor < 0 && (largest & sign_) == 0;
    Interval scales{from.low / std::abs(anchor), from.high / std::abs(anchor)};
    if (!narrow<kType>(words, negative, scales, places)) continue;
    const float size = simplest(scales.low, scales.high), found = negative ? -size : size;
    if (size == 0 || !is_scale(std::bit_cast<uint32_t>(found)) || !prove(words, found, places)) continue;
    scale = std::bit_cast<uint32_t>(found);
    std::rotate(anchors_.begin(), anchors_.begin() + static_cast<ptrdiff_t>(a),
                anchors_.begin() + static_cast<ptrdiff_t>(a) + 1);
    return true;
  }
  return false;
}

bool ScaleFinder::find(std::span<const uint32_t> words, uint32_t& scale, std::vector<uint16_t>& places) {
  switch (type_) {
    case ScaledFloat::f32: return find_typed<ScaledFloat::f32>(words, scale, places);
    case ScaledFloat::bf16: return find_typed<ScaledFloat::bf16>(words, scale, places);
    default: return find_typed<ScaledFloat::f16>(words, scale, places);
  }
}

}  // namespace brevis::dsl
