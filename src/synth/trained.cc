// SPDX-License-Identifier: Apache-2.0
#include "synth/trained.h"

#include <algorithm>

#include "base/threads.h"
#include "dsl/encode.h"
#include "dsl/verify.h"
#include "synth/grammar.h"

namespace brevis::synth {
namespace {

using dsl::Expr;

}  // namespace

Choice without_tables(dsl::Program program, uint64_t words, uint64_t frame_bytes, uint64_t estimated) {
  Choice choice;
  const uint64_t most = std::max<uint64_t>(1, frame_bytes / (program.width() / 8));
  for (const auto& region : program.regions())
    // A stream that fits a frame is one, whatever the period.
    choice.frame_words.push_back(words <= most ? most : dsl::default_frame_words(program, region, frame_bytes));
  choice.tables.resize(program.slots().size());
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  choice.estimated_bytes = estimated;
  return choice;
}

Result<std::optional<Choice>> train_whole(const Stream& stream, Fields& fields, const Expr& expr,
                                          const ChooseOptions& options) {
  const uint64_t start = thread_cpu_ns();
  auto program = dsl::build(stream.width, expr);
  if (!program) return std::optional<Choice>{};
  if (program->regions().size() != 1 || program->regions()[0].root != 0) return std::optional<Choice>{};
  Choice choice = without_tables(std::move(*program), stream.words, options.frame_bytes, 0);
  BREVIS_ASSIGN(auto known, tables_by_stats(expr, fields));
  if (known && known->size() == choice.tables.size()) {
    choice.tables = std::move(*known);
    choice.training_ns = thread_cpu_ns() - start;
    return std::optional<Choice>(std::move(choice));
  }
  const uint64_t frame_words = choice.frame_words[0];
  const uint64_t frames = (stream.words + frame_words - 1) / frame_words;
  bits::OwnedWords buffer;
  BREVIS_ASSIGN(auto tables, dsl::train(
                                 *choice.program, 0, frames, frame_words,
                                 [&](uint64_t frame) -> Result<bits::ConstWords> {
                                   const uint64_t first = frame * frame_words;
                                   return stream.at(first, std::min(frame_words, stream.words - first), buffer);
                                 },
                                 &fields.inversions()));
  if (!tables) return std::optional<Choice>{};
  choice.tables = std::move(*tables);
  choice.training_ns = thread_cpu_ns() - start;
  return std::optional<Choice>(std::move(choice));
}

namespace {

// The steps are at hand, and where order-0 statistics of what they leave reach every slot, so are all tables.
Result<std::optional<Choice>> train_shifted(const Stream& stream, const Shifted& shifted, Fields& fields,
                                            const Expr& expr, const ChooseOptions& options) {
  BREVIS_ASSIGN(auto inner, tables_by_stats(expr.children.front(), fields));
  if (!inner) return stream.width > 16 ? train_whole(stream, fields, expr, options) : std::optional<Choice>{};
  auto program = dsl::build(stream.width, expr);
  if (!program || program->slots().size() != inner->size() + 1) return std::optional<Choice>{};
  Choice choice = without_tables(std::move(*program), stream.words, options.frame_bytes, 0);
  choice.tables = std::move(*inner);
  choice.tables.insert(choice.tables.begin(), shifted.stored);
  return std::optional<Choice>(std::move(choice));
}

}  // namespace

Result<std::optional<Choice>> train_moved(const Stream& stream, Moved& moved, const Candidate& inner, uint64_t limit,
                                          uint64_t entropy, const ChooseOptions& options) {
  const Shifted& shifted = moved.shifted;
  if (options.search && !options.search->grammar->allows(inner.expr)) return std::optional<Choice>{};
  const Expr expr{dsl::OpId::offset, shifted.params, {inner.expr}};
  const uint64_t cost = inner.cost + (shifted.stored.size() + 2 * shifted.params.size()) * 8 * 256;
  if (cost >= limit) return std::optional<Choice>{};
  const uint64_t start = thread_cpu_ns();
  BREVIS_ASSIGN(auto choice, train_shifted(stream, shifted, moved.fields, expr, options));
  if (!choice) return std::optional<Choice>{};
  choice->training_ns = moved.training_ns + thread_cpu_ns() - start;
  choice->estimated_bytes = cost / (256 * 8);
  if (entropy != 0) choice->mate = Mate{expr, quality_of(cost, entropy), entropy / stream.words};
  return choice;
}

}  // namespace brevis::synth
