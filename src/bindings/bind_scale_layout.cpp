// deepgemm._ext.sf_fast, pack_ue8m0 and unpack_ue8m0: see deepgemm.layout.
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "bindings/tensor_output.hpp"
#include "deepgemm/scale_layout.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

struct Given {
  TensorView view;
  Array array;
};

Given import_given(nb::handle object, const char* operand) {
  Given given;
  given.array = import_array(object, operand, given.view);
  return given;
}

Given import_matrices(nb::handle object, const char* operand) {
  Given given = import_given(object, operand);
  if (given.view.rank != 3)
    require_rank_of(given.view, operand, 2, "[rows, K blocks], or 3, [G, rows, K blocks]");
  return given;
}

bool has_fast_strides(const TensorView& view) {
  const int row = view.rank - 2, column = view.rank - 1;
  const std::int64_t pitch = fast_scale_pitch(view.shape[row]);
  return view.strides[row] == 1 && view.strides[column] == pitch &&
         (view.rank == 2 || view.strides[0] == pitch * view.shape[column]);
}

// The output of a call: the caller's, or a new one in the fast layout.
class Target {
 public:
  Target(nb::handle out, const Given& like, DType dtype, std::int64_t columns) : out_(out) {
    const auto& shape = like.view.shape;
    if (!out.is_none()) {
      given_.emplace();
      given_->array = import_output(out, "out", given_->view);
    } else if (like.view.rank == 2) {
      made_ = allocate_fast_scales(like.array, dtype, shape[0], columns);
    } else {
      made_ = allocate_fast_scales(like.array, dtype, shape[0], shape[1], columns);
    }
  }
  const TensorView& view() const { return made_ ? made_->view : given_->view; }
  nb::object finished(const Given& like, Stream stream) {
    return made_ ? finish(*made_, like.array, stream) : nb::borrow(out_);
  }

 private:
  nb::handle out_;
  std::optional<Given> given_;
  std::optional<Output> made_;
};

CallOptions options_of(const Given& source, nb::handle stream) {
  CallOptions call = call_options(source.view.device);
  call.stream = find_stream(stream, source.array);
  return call;
}

nb::object sf_fast_binding(nb::handle sf, nb::handle out, nb::handle stream) {
  const Given source = import_matrices(sf, "sf");
  const TensorView& view = source.view;
  if (out.is_none() && source.array.type->framework == Framework::jax)
    throw TypeError(complaint("sf", "a jax array", "a framework whose arrays have strides"));
  const bool known = view.dtype == DType::float32 || view.dtype == DType::int32;
  if (out.is_none() && known && has_fast_strides(view)) return nb::borrow(sf);
  // Of another dtype than these two the call says so.
  Target target(out, source, known ? view.dtype : DType::float32, view.shape[view.rank - 1]);
  const CallOptions call = options_of(source, stream);
  {
    const GilReleased released;
    copy_scales(view, target.view(), call);
  }
  return target.finished(source, call.stream);
}

std::vector<std::int64_t> parse_sizes(nb::handle sizes, const char* argument) {
  std::vector<std::int64_t> parsed;
  for (nb::handle size : nb::iter(sizes)) parsed.push_back(parse_integer(size, argument));
  return parsed;
}

// The groups along K, whose array `keep` holds.
std::optional<KSizes> import_k_sizes(nb::handle k_sizes, nb::handle k_per_scale,
                                     std::optional<Given>& keep) {
  if (k_sizes.is_none()) return std::nullopt;
  keep.emplace(import_given(k_sizes, "k_sizes"));
  return KSizes{keep->view, parse_integer(k_per_scale, "k_per_scale")};
}

nb::object pack_binding(nb::handle sf, nb::handle out, nb::handle group_ends, nb::handle alignment,
                        nb::handle k_sizes, nb::handle host_k_sizes, nb::handle k_per_scale,
                        nb::handle stream) {
  const Given source = import_matrices(sf, "sf");
  std::optional<Given> ends, sizes;
  PackGroups groups;
  groups.k = import_k_sizes(k_sizes, k_per_scale, sizes);
  if (!group_ends.is_none()) {
    ends.emplace(import_given(group_ends, "group_ends"));
    groups.rows = RowEnds{ends->view, parse_integer(alignment, "alignment")};
  }
  if (!groups.k && !host_k_sizes.is_none()) {
    throw ValueError(complaint("host_k_sizes", "sizes", "None without k_sizes"));
  }
  std::int64_t columns = packed_blocks(source.view.shape[source.view.rank - 1]);
  if (groups.k && out.is_none()) {
    if (host_k_sizes.is_none()) {
      throw ValueError(complaint("host_k_sizes", "None", "the sizes as a sequence, or out",
                                 "they say how many columns out has"));
    }
    columns = packed_blocks(parse_sizes(host_k_sizes, "host_k_sizes"), groups.k->k_per_scale);
  }
  Target target(out, source, DType::int32, columns);
  const CallOptions call = options_of(source, stream);
  {
    const GilReleased released;
    pack_ue8m0(source.view, target.view(), groups, call);
  }
  return target.finished(source, call.stream);
}

nb::object unpack_binding(nb::handle packed, nb::handle out, nb::handle k_blocks,
                          nb::handle k_sizes, nb::handle k_per_scale, nb::handle stream) {
  const Given source = import_matrices(packed, "packed");
  std::optional<Given> sizes;
  const std::optional<KSizes> groups = import_k_sizes(k_sizes, k_per_scale, sizes);
  std::int64_t columns = 4 * source.view.shape[source.view.rank - 1];
  if (!k_blocks.is_none()) {
    const std::int64_t most = columns;
    columns = parse_integer(k_blocks, "k_blocks");
    if (columns < 0 || columns > most) {
      throw ValueError(complaint("k_blocks", std::to_string(columns),
                                 "0 to " + std::to_string(most), "four for each column of packed"));
    }
  }
  Target target(out, source, DType::float32, columns);
  const CallOptions call = options_of(source, stream);
  {
    const GilReleased released;
    unpack_ue8m0(source.view, target.view(), groups, call);
  }
  return target.finished(source, call.stream);
}

}  // namespace

void bind_scale_layout(nb::module_& module) {
  module.def("sf_fast", &sf_fast_binding, "sf"_a.none(), "out"_a.none(), "stream"_a.none(),
             nb::sig("def sf_fast(sf: object, out: object, stream: object) -> typing.Any"),
             "See deepgemm.layout.sf_fast.");
  module.def("pack_ue8m0", &pack_binding, "sf"_a.none(), "out"_a.none(), "group_ends"_a.none(),
             "alignment"_a.none(), "k_sizes"_a.none(), "host_k_sizes"_a.none(),
             "k_per_scale"_a.none(), "stream"_a.none(),
             nb::sig("def pack_ue8m0(sf: object, out: object, group_ends: object, alignment: int, "
                     "k_sizes: object, host_k_sizes: object, k_per_scale: int, stream: object) -> "
                     "typing.Any"),
             "See deepgemm.layout.pack_ue8m0.");
  module.def("unpack_ue8m0", &unpack_binding, "packed"_a.none(), "out"_a.none(),
             "k_blocks"_a.none(), "k_sizes"_a.none(), "k_per_scale"_a.none(), "stream"_a.none(),
             nb::sig("def unpack_ue8m0(packed: object, out: object, k_blocks: object, k_sizes: "
                     "object, k_per_scale: int, stream: object) -> typing.Any"),
             "See deepgemm.layout.unpack_ue8m0.");
}

}  // namespace deepgemm::bindings
