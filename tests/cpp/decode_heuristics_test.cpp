// The choice of decode configs: legal, bounded, fitting, and open to a policy.
#include "heuristics/decode_heuristics.hpp"
#include "heuristics/fitted_decode_h200.hpp"
#include "heuristics/fitted_h200.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>

#include "test_tensors.hpp"

using namespace deepgemm;
using namespace deepgemm::heuristics;
using test::contains;
using test::message_of;

namespace {

std::string bytes(const device::DecodeConfig& config) {
  return {reinterpret_cast<const char*>(&config), sizeof(config)};
}

DecodeRequest request(std::int64_t m, std::int64_t n, std::int64_t k) {
  DecodeRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  return r;
}

std::string refusal(const DecodeRequest& r, const Policy& policy) {
  return message_of<ValueError>([&] { choose(r, &policy); });
}

}  // namespace

TEST_CASE("every selectable config is legal and unlike the others") {
  std::set<std::string> seen;
  for (const device::DecodeConfig& config : selectable_decode_configs()) {
    CAPTURE(describe(config));
    CHECK(device::broken_rule(config) == nullptr);
    CHECK(config.stages >= (config.scaled() ? 1 : 2));
    CHECK(seen.insert(bytes(config)).second);
  }
  CHECK(seen.size() >= 20);
  CHECK(seen.size() <= 400);
}

TEST_CASE("no request meets a config outside the selectable set, or one that does not fit") {
  std::set<std::string> selectable;
  for (const auto& config : selectable_decode_configs()) selectable.insert(bytes(config));
  for (bool general : {false, true}) {
    for (std::int64_t m = 1; m <= max_decode_tokens; ++m) {
      for (std::int64_t k : {128, 512, 2048, 7168, 16384}) {
        DecodeRequest r = request(m, 4096, k);
        r.general_epilogue = general;
        const auto choices = candidates(r);
        REQUIRE_FALSE(choices.empty());
        for (std::size_t i = 0; i < choices.size(); ++i) {
          const DecodeChoice& choice = choices[i];
          REQUIRE(selectable.count(bytes(choice.config)) == 1);
          REQUIRE(choice.config.tokens >= m);
          REQUIRE(choice.config.general_epilogue == general);
          REQUIRE(choice.shared_bytes == device::decode_shared_bytes(choice.config, k / 128));
          REQUIRE((choice.shared_bytes + 1024) * choice.config.ctas_per_sm <=
                  device::shared_bytes_per_sm);
          REQUIRE(choice.grid * choice.config.rows() >= 4096 * choice.config.cluster_k);
          REQUIRE(choice.grid % choice.config.cluster_k == 0);
          if (i > 0)
            REQUIRE((choices[i - 1].tuned || choices[i - 1].predicted_us <= choice.predicted_us));
        }
      }
    }
  }
}

TEST_CASE("what it cannot take has no candidates") {
  CHECK(candidates(request(max_decode_tokens + 1, 4096, 1024)).empty());
  CHECK(candidates(request(8, 4096, std::int64_t{1} << 22)).empty());  // no table of factors fits
}

TEST_CASE("a bound on the grid leaves out what needs more") {
  DecodeRequest r = request(8, 4096, 2048);
  r.max_ctas = 64;
  const auto bounded = candidates(r);
  REQUIRE_FALSE(bounded.empty());
  for (const DecodeChoice& choice : bounded) CHECK(choice.grid <= 64);
  r.max_ctas = 10;
  CHECK(candidates(r).empty());
}

TEST_CASE("a tuned problem takes the config that a sweep found, on a device like the swept one") {
  int met = 0;
  for (const TunedDecode& t : tuned_decode) {
    DecodeRequest r = request(t.tokens, t.n, t.k);
    const DecodeChoice choice = choose(r);
    CHECK(choice.tuned);
    CHECK(choice.config.stage_blocks == t.stage_blocks);
    CHECK(choice.config.stages == t.stages);
    CHECK(choice.config.cluster_k == t.cluster_k);
    CHECK(choice.predicted_us == double{t.us});
    r.num_sms = 66;
    CHECK_FALSE(choose(r).tuned);
    ++met;
  }
  CHECK(met > 0);
}

TEST_CASE("a policy picks a candidate, or changes the best one") {
  const DecodeRequest r = request(8, 4096, 2048);
  for (const DecodeChoice& wanted : candidates(r)) {
    Policy policy;
    policy.consumers = wanted.config.consumers;
    policy.stage_blocks = wanted.config.stage_blocks;
    policy.stages = wanted.config.stages;
    policy.cluster_k = wanted.config.cluster_k;
    policy.ctas_per_sm = wanted.config.ctas_per_sm;
    const DecodeChoice choice = choose(r, &policy);
    CHECK(bytes(choice.config) == bytes(wanted.config));
    CHECK(choice.grid == wanted.grid);
    CHECK(choice.predicted_us == wanted.predicted_us);
  }
  Policy policy;
  policy.stages = 1;
  CHECK(choose(r, &policy).config.stages == 1);
}

TEST_CASE("a policy that is illegal names the rule or the field") {
  const DecodeRequest r = request(8, 4096, 2048);
  Policy policy;
  policy.cluster_k = 3;
  CHECK(contains(refusal(r, policy), "cluster_k must be 1, 2, 4 or 8"));
  policy = {};
  policy.consumers = 3;
  CHECK(contains(refusal(r, policy), "consumers must be 1 or 2"));
  policy = {};
  policy.stages = 200;
  CHECK(contains(refusal(r, policy), "shared memory"));
  policy = {};
  policy.ctas_per_sm = 200;
  CHECK(contains(refusal(r, policy), "register budget"));
  policy = {};
  policy.stage_blocks = 256 + 2;  // 2, if it were cut to a byte
  CHECK(refusal(r, policy) == "policy.stage_blocks: found 258, need 1 to 255");
  policy.stage_blocks = 0;
  CHECK(contains(refusal(r, policy), "policy.stage_blocks: found 0"));
  policy = {};
  policy.ctas_per_sm = 2, policy.stages = 5, policy.stage_blocks = 2, policy.cluster_k = 1;
  DecodeRequest long_k = request(16, 4096, 16384);
  CHECK(refusal(long_k, policy).empty());
  long_k.k *= 8;
  REQUIRE_FALSE(candidates(long_k).empty());
  CHECK(contains(refusal(long_k, policy), "table of factors"));
}

TEST_CASE("a B many times L2 stays in it, and in 16 bits comes in boxes of one block") {
  DecodeRequest r = request(1, 129280, 7168);
  CHECK(choose(r).b_policy == device::L2Policy::evict_normal);
  CHECK(choose(r).config.stage_blocks > 1);
  r.a_type = r.b_type = r.out_type = device::ElementType::bf16;
  CHECK(choose(r).b_policy == device::L2Policy::evict_normal);
  CHECK(choose(r).config.stage_blocks == 1);
  for (auto [n, k] : {std::pair{512, 524288}, std::pair{8192, 28672}}) {
    r.n = n;  // too few rows for all SMs: K is split as ever
    r.k = k;
    for (const DecodeChoice& choice : candidates(r)) CHECK(choice.config.stage_blocks > 1);
  }
  r.k = 7168;
  r.n = 24576;
  CHECK(choose(r).b_policy == device::L2Policy::evict_first);
  for (const DecodeChoice& choice : candidates(r)) CHECK(choice.config.stage_blocks > 1);
}
