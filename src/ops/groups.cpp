#include "ops/groups.hpp"

#include <cstring>
#include <string>

#include "core/env.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"

namespace deepgemm::ops {
namespace {

using Values = std::vector<std::int64_t>;

std::string at_group(std::int64_t value, std::size_t group) {
  return join(value, " for group ", group);
}

// Each size is 0 or more and fits what the sizes before it have left of `extent`; function(g,
// begin, end) gets its range.
template <class Function>
void for_each_size(std::string_view name, const Values& sizes, std::int64_t extent,
                   std::string_view rule, Function&& function) {
  std::int64_t begin = 0;
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    if (sizes[g] < 0)
      throw ValueError(complaint(name, at_group(sizes[g], g), "sizes of 0 or more"));
    if (sizes[g] > extent - begin) {
      throw ValueError(complaint(name, join(at_group(sizes[g], g), " after a sum of ", begin),
                                 join("a sum of ", extent, " at most"), rule));
    }
    function(g, begin, begin + sizes[g]);
    begin += sizes[g];
  }
}

// None negative, none past `rows`, none below the one before it.
void check_increasing(std::string_view name, const Values& values, std::int64_t rows) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < before) {
      throw ValueError(complaint(name, join(values[i], " at ", i), join(before, " or more"),
                                 i == 0 ? "rows count from 0" : "none is below the one before it"));
    }
    if (values[i] > rows) {
      throw ValueError(complaint(name, join(values[i], " at ", i), join(rows, " at most"),
                                 join("a has ", rows, " rows")));
    }
    before = values[i];
  }
}

void add(cpu::GroupRows& result, std::size_t group, std::int64_t begin, std::int64_t end) {
  if (begin < end) result[group].push_back({begin, end});
}

// Runs of equal labels.
void add_labels(cpu::GroupRows& result, const Values& labels) {
  const auto groups = static_cast<std::int64_t>(result.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] >= -1 && labels[row] < groups) continue;
    throw ValueError(complaint("labels", join(labels[row], " for row ", row),
                               join("-1 to ", groups - 1),
                               join("b has ", groups, " groups; -1 is a row of none")));
  }
  for (std::size_t begin = 0, end = 0; begin < labels.size(); begin = end) {
    while (end < labels.size() && labels[end] == labels[begin]) ++end;
    if (labels[begin] < 0) continue;
    add(result, static_cast<std::size_t>(labels[begin]), static_cast<std::int64_t>(begin),
        static_cast<std::int64_t>(end));
  }
}

void add_ends(cpu::GroupRows& result, const Values& ends, std::int64_t alignment) {
  std::int64_t end_before = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    add(result, g, align_up(end_before, alignment), ends[g]);
    end_before = ends[g];
  }
}

// A vector on a GPU, as the stream leaves it, in host memory: its span, with its strides.
TensorView copied_to_host(const TensorView& vector, Stream stream, std::vector<char>& memory) {
  const driver::ContextGuard context(vector.device.index);
  if (driver::is_captured(stream)) {
    throw Error(complaint("stream", "one that a CUDA graph captures", "one that can be waited for",
                          "DEEPGEMM_CHECK_GROUPS is set: each call reads its group array back"));
  }
  const ByteRange span = byte_range(vector);
  memory.resize(span.end - span.begin);
  driver::read_memory(memory.data(), reinterpret_cast<const void*>(span.begin), memory.size(),
                      stream);
  TensorView copy = vector;
  copy.data = memory.data() + (reinterpret_cast<std::uintptr_t>(vector.data) - span.begin);
  copy.device = {};
  return copy;
}

}  // namespace

std::string_view name_of(GroupForm form) {
  switch (form) {
    case GroupForm::sizes:
      return "group_sizes";
    case GroupForm::offsets:
      return "group_offsets";
    case GroupForm::ends:
      return "group_ends";
    case GroupForm::labels:
      return "labels";
  }
  throw ValueError(
      complaint("form", join("value ", static_cast<int>(form)), "sizes, offsets, ends or labels"));
}

void check_group_vector(const Operand& vector, std::int64_t length, std::string_view what,
                        const Operand& reference, const Operand& out) {
  check_dtype(vector, {DType::int32, DType::int64});
  check_rank(vector, 1, what);
  check_shape(vector, {length}, what);
  check_extents(vector);
  check_device(vector, reference);
  check_no_overlap(out, vector);
}

bool are_values_checked(const TensorView& vector) {
  return vector.device.kind == DeviceKind::cpu || env::flag("DEEPGEMM_CHECK_GROUPS", false);
}

std::vector<std::int64_t> integers_of(const TensorView& given, Stream stream) {
  Values values(static_cast<std::size_t>(given.shape[0]));
  if (values.empty()) return values;
  std::vector<char> memory;
  const TensorView vector =
      given.device.kind == DeviceKind::cpu ? given : copied_to_host(given, stream, memory);
  const std::int64_t bytes = size_in_bytes(vector.dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* from = static_cast<const char*>(vector.data) +
                       static_cast<std::int64_t>(i) * vector.strides[0] * bytes;
    if (vector.dtype == DType::int64) {
      std::memcpy(&values[i], from, sizeof(std::int64_t));
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, from, sizeof(narrow));
      values[i] = narrow;
    }
  }
  return values;
}

cpu::GroupRows rows_of_groups(const GroupedArgs& args, std::int64_t groups, std::int64_t rows,
                              Stream stream) {
  cpu::GroupRows result(static_cast<std::size_t>(groups));
  const Values values = integers_of(args.groups, stream);
  const std::string_view name = name_of(args.form);
  switch (args.form) {
    case GroupForm::sizes:
      for_each_size(
          name, values, rows, join("a has ", rows, " rows"),
          [&](std::size_t g, std::int64_t begin, std::int64_t end) { add(result, g, begin, end); });
      break;
    case GroupForm::offsets:
      check_increasing(name, values, rows);
      for (std::size_t g = 0; g < result.size(); ++g) add(result, g, values[g], values[g + 1]);
      break;
    case GroupForm::ends:
      check_increasing(name, values, rows);
      add_ends(result, values, args.alignment);
      break;
    case GroupForm::labels:
      add_labels(result, values);
      break;
  }
  return result;
}

std::vector<std::int64_t> rows_of_masks(const TensorView& rows, std::int64_t most, Stream stream) {
  Values values = integers_of(rows, stream);
  for (std::size_t g = 0; g < values.size(); ++g) {
    if (values[g] >= 0 && values[g] <= most) continue;
    throw ValueError(complaint("rows", at_group(values[g], g), join("0 to ", most),
                               join("a has ", most, " rows for each group")));
  }
  return values;
}

std::vector<std::int64_t> sizes_of_k(const TensorView& k_sizes, std::int64_t k,
                                     std::int64_t multiple, Stream stream) {
  Values values = integers_of(k_sizes, stream);
  for_each_size("k_sizes", values, k, join("a has K = ", k),
                [](std::size_t, std::int64_t, std::int64_t) {});
  for (std::size_t g = 0; g < values.size(); ++g) {
    if (values[g] % multiple == 0) continue;
    throw ValueError(complaint("k_sizes", at_group(values[g], g), join("multiples of ", multiple),
                               "groups of float8 start at multiples of 16 bytes"));
  }
  return values;
}

}  // namespace deepgemm::ops
