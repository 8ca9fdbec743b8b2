// Group vectors on the device: what they hold may be anything, what is made of them lies inside the
// arrays. Shared by host and device; the rules are those of grouped.hpp.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

enum class GroupVectorForm : i32 { sizes, offsets, ends, labels, masks };

// Tiles of all groups count in 32 bits; the host sees to it that there are not more.
inline constexpr i32 max_group_tiles = 0x3FFFFFFF;

struct GroupVector {
  const void* data;
  i64 step;  // stride in elements
  i32 is_64_bit;
  GroupVectorForm form;
  i32 groups;
  i32 rows;       // of a, or of each of its matrices (masks)
  i32 alignment;  // of ends
};

// a + b for numbers of 0 to `most`, stopping there.
DEEPGEMM_SHARED_CODE i32 sum_up_to(i32 a, i32 b, i32 most) {
  const u32 sum = static_cast<u32>(a) + static_cast<u32>(b);
  return sum < static_cast<u32>(most) ? static_cast<i32>(sum) : most;
}

DEEPGEMM_SHARED_CODE const void* address_of(const GroupVector& v, i32 i) {
  const i64 at = i * v.step;
  return v.is_64_bit != 0 ? static_cast<const void*>(static_cast<const i64*>(v.data) + at)
                          : static_cast<const i32*>(v.data) + at;
}

// 0 where elements i and j are equal.
DEEPGEMM_SHARED_CODE i32 difference(const GroupVector& v, i32 i, i32 j) {
  if (v.is_64_bit != 0) {
    const i64* data = static_cast<const i64*>(v.data);
    return data[i * v.step] != data[j * v.step];
  }
  const i32* data = static_cast<const i32*>(v.data);
  return data[i * v.step] ^ data[j * v.step];
}

// Element i, limited to low ... high.
DEEPGEMM_SHARED_CODE i32 read_between(const GroupVector& v, i32 i, i32 low, i32 high) {
  const i64 at = i * v.step;
  const i64 found =
      v.is_64_bit != 0 ? static_cast<const i64*>(v.data)[at] : static_cast<const i32*>(v.data)[at];
  return static_cast<i32>(min_of(max_of(found, static_cast<i64>(low)), static_cast<i64>(high)));
}

struct GroupSpan {
  i32 begin, end;  // rows; end >= begin
};

// Of every form but sizes, whose begins are sums, and labels.
DEEPGEMM_SHARED_CODE GroupSpan span_of_group(const GroupVector& v, i32 group) {
  if (v.form == GroupVectorForm::masks) return {0, read_between(v, group, 0, v.rows)};
  if (v.form == GroupVectorForm::offsets) {
    const i32 begin = read_between(v, group, 0, v.rows);
    return {begin, read_between(v, group + 1, begin, v.rows)};
  }
  const i32 before = group == 0 ? 0 : read_between(v, group - 1, 0, v.rows);
  const i64 aligned =
      ceil_div(static_cast<i64>(before), static_cast<i64>(v.alignment)) * v.alignment;
  const i32 begin = static_cast<i32>(min_of(aligned, static_cast<i64>(v.rows)));
  return {begin, read_between(v, group, begin, v.rows)};
}

}  // namespace deepgemm::device
