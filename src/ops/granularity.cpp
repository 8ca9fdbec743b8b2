#include "ops/granularity.hpp"

#include <optional>
#include <string>

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

std::string extents_text(const Granularity& granularity, std::int64_t rows, std::int64_t k) {
  ScaleExtents extents = scale_extents(granularity, rows, k);
  return join("[", extents.rows, ", ", extents.k, "]");
}

[[noreturn]] void refuse_all(std::string_view name, const TensorView& sf, std::int64_t rows,
                             std::int64_t k, std::span<const Granularity> readings) {
  std::string need;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    need += join(i == 0                     ? ""
                 : i + 1 == readings.size() ? " or "
                                            : ", ",
                 extents_text(readings[i], rows, k), " for ", describe(readings[i]));
  }
  throw ValueError(complaint(name, join("shape ", shape_text(sf)), need,
                             join("scale factors of ", rows, " rows by ", k,
                                  " of K; any other granularity must be given")));
}

Granularity infer(std::string_view name, const TensorView& sf, std::int64_t rows, std::int64_t k,
                  std::span<const Granularity> readings) {
  std::optional<Granularity> chosen;
  std::string others;
  for (const Granularity& reading : readings) {
    if (!fits(sf, reading, rows, k)) continue;
    if (!chosen) {
      chosen = reading;
    } else if (!same_factors(*chosen, reading, rows, k)) {
      others += join(", ", describe(reading));
    }
  }
  if (!chosen) refuse_all(name, sf, rows, k, readings);
  if (others.empty()) return *chosen;
  throw ValueError(complaint(name, join("shape ", shape_text(sf)), "a granularity given by name",
                             join("this shape can be read as ", describe(*chosen), others)));
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
                        const Granularity& granularity, std::int64_t rows, std::int64_t k) {
  throw ValueError(complaint(sf_name, join("shape ", shape_text(sf)),
                             join("shape ", extents_text(granularity, rows, k)),
                             join("granularity ", describe(granularity), " of an operand of ", rows,
                                  " rows by ", k, " of K")));
}

void check_granularity(std::string_view name, const Granularity& granularity) {
  if (granularity.rows >= 0 && granularity.k >= 0) return;
  throw ValueError(complaint(name,
                             join("granularity (", granularity.rows, ", ", granularity.k, ")"),
                             "block extents of 1 or more, or whole"));
}

Granularity resolve_granularity(std::string_view name, std::string_view sf_name,
                                const ScaledView& operand, std::int64_t rows, std::int64_t k,
                                std::span<const Granularity> readings) {
  if (!operand.sf) return per_tensor;  // every factor is 1
  const TensorView& sf = *operand.sf;
  if (!operand.granularity) return infer(sf_name, sf, rows, k, readings);
  check_granularity(name, *operand.granularity);
  if (!fits(sf, *operand.granularity, rows, k)) {
    refuse_scale_shape(sf_name, sf, *operand.granularity, rows, k);
  }
  return canonical(*operand.granularity, rows, k);
}

}  // namespace deepgemm::ops
