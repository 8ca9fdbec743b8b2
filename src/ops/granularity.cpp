#include "ops/granularity.hpp"

#include <optional>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "ops/checks.hpp"

namespace deepgemm::ops {
namespace {

constexpr Granularity row_readings[] = {
    {1, 128}, {1, 32}, {1, Granularity::whole}, {128, 128}, per_tensor};
constexpr Granularity block_readings[] = {
    {128, 128}, {1, 128}, {1, 32}, {1, Granularity::whole}, per_tensor};

// Blocks of the given extent cut `extent` into the same pieces.
bool same_cut(std::int64_t a, std::int64_t b, std::int64_t extent) {
  auto pieces_of = [extent](std::int64_t block) {
    return block == Granularity::whole || block >= extent ? extent : block;
  };
  return pieces_of(a) == pieces_of(b);
}

bool same_factors(const Granularity& a, const Granularity& b, std::int64_t rows, std::int64_t k) {
  return same_cut(a.rows, b.rows, rows) && same_cut(a.k, b.k, k);
}

// The shape of sf, as its memory has it.
std::string extents_text(const Granularity& granularity, std::int64_t rows, std::int64_t k,
                         std::string_view turned_by) {
  ScaleExtents extents = scale_extents(granularity, rows, k);
  if (!turned_by.empty()) std::swap(extents.rows, extents.k);
  return join("[", extents.rows, ", ", extents.k, "]");
}

std::string layout_text(std::string_view turned_by) {
  if (turned_by.empty()) return {};
  return join("; layout \"", turned_by, "\" has the operand as [K, rows], and sf likewise");
}

// sf as [rows, k].
TensorView by_rows(const TensorView& sf, bool turned) {
  return turned && sf.rank == 2 ? transposed(sf) : sf;
}

[[noreturn]] void refuse_all(std::string_view name, const TensorView& sf, std::int64_t rows,
                             std::int64_t k, std::span<const Granularity> readings,
                             std::string_view turned_by) {
  std::string need;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    need += join(i == 0                     ? ""
                 : i + 1 == readings.size() ? " or "
                                            : ", ",
                 extents_text(readings[i], rows, k, turned_by), " for ", describe(readings[i]));
  }
  throw ValueError(
      complaint(name, join("shape ", shape_text(sf)), need,
                join("scale factors of ", rows, " rows by ", k,
                     " of K; any other granularity must be given", layout_text(turned_by))));
}

Granularity infer(std::string_view name, const TensorView& sf, std::int64_t rows, std::int64_t k,
                  std::span<const Granularity> readings, std::string_view turned_by) {
  const TensorView rows_first = by_rows(sf, !turned_by.empty());
  std::optional<Granularity> chosen;
  std::string others;
  for (const Granularity& reading : readings) {
    if (!fits(rows_first, reading, rows, k)) continue;
    if (!chosen) {
      chosen = reading;
    } else if (!same_factors(*chosen, reading, rows, k)) {
      others += join(", ", describe(reading));
    }
  }
  if (!chosen) refuse_all(name, sf, rows, k, readings, turned_by);
  if (others.empty()) return *chosen;
  throw ValueError(complaint(
      name, join("shape ", shape_text(sf)), "a granularity given by name",
      join("this shape can be read as ", describe(*chosen), others, layout_text(turned_by))));
}

}  // namespace

std::span<const Granularity> readings_of_rows() noexcept { return row_readings; }
std::span<const Granularity> readings_of_blocks() noexcept { return block_readings; }

bool fits(const TensorView& sf, const Granularity& granularity, std::int64_t rows, std::int64_t k) {
  ScaleExtents extents = scale_extents(granularity, rows, k);
  if (granularity == per_tensor && sf.size() == 1) return true;  // of any rank
  return sf.rank == 2 && sf.shape[0] == extents.rows && sf.shape[1] == extents.k;
}

void refuse_scale_shape(std::string_view sf_name, const TensorView& sf,
                        const Granularity& granularity, std::int64_t rows, std::int64_t k,
                        std::string_view turned_by) {
  throw ValueError(complaint(sf_name, join("shape ", shape_text(sf)),
                             join("shape ", extents_text(granularity, rows, k, turned_by)),
                             join("granularity ", describe(granularity), " of an operand of ", rows,
                                  " rows by ", k, " of K", layout_text(turned_by))));
}

void check_granularity(std::string_view name, const Granularity& granularity) {
  if (granularity.rows >= 0 && granularity.k >= 0) return;
  throw ValueError(complaint(name,
                             join("granularity (", granularity.rows, ", ", granularity.k, ")"),
                             "block extents of 1 or more, or whole"));
}

Granularity resolve_granularity(std::string_view name, std::string_view sf_name,
                                const ScaledView& operand, std::int64_t rows, std::int64_t k,
                                std::span<const Granularity> readings, std::string_view turned_by) {
  if (!operand.sf) return per_tensor;  // every factor is 1
  const TensorView& sf = *operand.sf;
  if (!operand.granularity) return infer(sf_name, sf, rows, k, readings, turned_by);
  check_granularity(name, *operand.granularity);
  if (!fits(by_rows(sf, !turned_by.empty()), *operand.granularity, rows, k)) {
    refuse_scale_shape(sf_name, sf, *operand.granularity, rows, k, turned_by);
  }
  return canonical(*operand.granularity, rows, k);
}

std::optional<GemmArgs> with_scales_by_rows(const GemmArgs& args) {
  const bool turn_a = a_is_k_by_m(args.layout) && args.a.sf;
  const bool turn_b = b_is_k_by_n(args.layout) && args.b.sf;
  if (!turn_a && !turn_b) return std::nullopt;
  GemmArgs turned = args;
  if (turn_a) turned.a.sf = by_rows(*args.a.sf, true);
  if (turn_b) turned.b.sf = by_rows(*args.b.sf, true);
  return turned;
}

}  // namespace deepgemm::ops
