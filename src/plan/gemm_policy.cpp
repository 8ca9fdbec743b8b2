#include "plan/gemm_policy.hpp"

#include <initializer_list>
#include <optional>

#include "core/text.hpp"
#include "deepgemm/error.hpp"

namespace deepgemm::plan {
namespace {

using Choice = WantedKernel::Choice;

const char* name_of(Choice choice) {
  switch (choice) {
    case Choice::persistent:
      return "persistent";
    case Choice::decode:
      return "decode";
    case Choice::general:
      return "general";
    default:
      return "persistent or decode";
  }
}

WantedKernel by_name(const std::string& name) {
  for (Choice choice : {Choice::persistent, Choice::decode, Choice::general}) {
    if (name == name_of(choice)) return {choice, "policy.kernel", name};
  }
  throw ValueError(complaint("policy.kernel", name, "persistent, decode or general"));
}

// Takes in a field that only `choice` has.
template <class T>
void add(WantedKernel& wanted, Choice choice, const char* name, const std::optional<T>& given) {
  if (!given) return;
  const std::string field = join("policy.", name), value{to_text(*given)};
  const bool agrees =
      wanted.choice == choice || (choice == Choice::tensor_core && wanted.choice != Choice::any &&
                                  wanted.choice != Choice::general);
  if (agrees) return;
  if (wanted.choice != Choice::any && wanted.choice != Choice::tensor_core) {
    throw ValueError(
        complaint(field, value, "no such field",
                  join("the ", name_of(choice), " kernel has it, and ", wanted.field, " = ",
                       wanted.value, " asks for the ", name_of(wanted.choice), " kernel")));
  }
  wanted = {choice, field, value};
}

}  // namespace

WantedKernel wanted_kernel(const Policy* policy) {
  WantedKernel wanted;
  if (policy == nullptr) return wanted;
  const Policy& p = *policy;
  if (p.kernel) wanted = by_name(*p.kernel);
  add(wanted, Choice::tensor_core, "consumers", p.consumers);
  add(wanted, Choice::tensor_core, "stages", p.stages);
  add(wanted, Choice::tensor_core, "cluster_k", p.cluster_k);
  add(wanted, Choice::persistent, "tile_m", p.tile_m);
  add(wanted, Choice::persistent, "tile_n", p.tile_n);
  add(wanted, Choice::persistent, "consumers_n", p.consumers_n);
  add(wanted, Choice::persistent, "cluster_m", p.cluster_m);
  add(wanted, Choice::persistent, "cluster_n", p.cluster_n);
  add(wanted, Choice::persistent, "group", p.group);
  add(wanted, Choice::persistent, "raster_along_n", p.raster_along_n);
  add(wanted, Choice::persistent, "ordered", p.ordered);
  add(wanted, Choice::decode, "stage_blocks", p.stage_blocks);
  add(wanted, Choice::decode, "ctas_per_sm", p.ctas_per_sm);
  return wanted;
}

void check_possible(const WantedKernel& wanted, const std::string& obstacle) {
  if (obstacle.empty()) return;
  throw ValueError(
      complaint(wanted.field, wanted.value, "another kernel",
                join("the ", name_of(wanted.choice), " kernel cannot take this: ", obstacle)));
}

}  // namespace deepgemm::plan
