// Random lists of calls for script.hpp, with what a plain file does with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/depth.hpp"
#include "support/script.hpp"

namespace ferry::test {

inline constexpr std::uint64_t script_size_max = 200'000;
inline constexpr std::uint64_t script_buffer_bytes = 70'000;

struct ScriptPlan {
  std::vector<Step> steps;
  std::vector<Outcome> expected;  // one more than steps
  std::string file;               // what is in it at the end
};

inline std::uint64_t checksum(const std::string& bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    sum += part_of_checksum(at, static_cast<unsigned char>(bytes[at]));
  return sum;
}

// The result, and the file as it is afterwards.
inline Outcome expect(const Step& step, std::string& file) {
  switch (step.call) {
    case Step::read: {
      if (step.offset >= file.size()) return {0, 0};
      const std::string bytes = file.substr(step.offset, step.bytes);
      return {static_cast<std::int64_t>(bytes.size()), checksum(bytes)};
    }
    case Step::write: {
      if (step.bytes == 0) return {0, 0};
      file.resize(std::max<std::size_t>(file.size(), step.offset + step.bytes), '\0');
      for (std::uint64_t at = 0; at < step.bytes; ++at)
        file[step.offset + at] = static_cast<char>(byte_of(step.seed, at));
      return {static_cast<std::int64_t>(step.bytes), 0};
    }
    case Step::truncate:
      file.resize(step.bytes, '\0');
      return {0, 0};
    case Step::status:
      return {0, file.size()};
    default:
      return {0, 0};
  }
}

inline ScriptPlan make_script(Random& random, std::uint64_t count) {
  ScriptPlan plan;
  for (std::uint64_t i = 0; i < count; ++i) {
    Step step;
    const std::uint64_t choice = random.below(20);
    step.call = choice < 9    ? Step::read
                : choice < 15 ? Step::write
                              : static_cast<Step::Call>(Step::truncate + random.below(6));
    step.placement = static_cast<device::Placement>(random.below(4));
    step.offset = random.below(script_size_max);
    step.bytes = step.call == Step::truncate ? random.below(script_size_max)
                 : random.one_in(5)          ? random.below(script_buffer_bytes - 64)
                                             : random.below(3000);
    step.seed = random.bits();
    step.shift = random.below(64);
    plan.steps.push_back(step);
    plan.expected.push_back(expect(step, plan.file));
  }
  plan.expected.push_back({0, 0});
  return plan;
}

// What differs first, or nothing.
inline std::string compare(const ScriptPlan& plan, const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < plan.expected.size(); ++i) {
    const Outcome& wanted = plan.expected[i];
    const Outcome& got = outcomes[i];
    if (got.result == wanted.result && got.checksum == wanted.checksum) continue;
    std::string text = "step " + std::to_string(i);
    if (i < plan.steps.size()) {
      const Step& step = plan.steps[i];
      text += " (call " + std::to_string(step.call) + ", placement " +
              std::to_string(static_cast<int>(step.placement)) + ", offset " +
              std::to_string(step.offset) + ", " + std::to_string(step.bytes) + " bytes)";
    }
    return text + ": " + std::to_string(got.result) + " instead of " +
           std::to_string(wanted.result) +
           (got.result == wanted.result ? ", with other bytes" : "");
  }
  return "";
}

}  // namespace ferry::test
