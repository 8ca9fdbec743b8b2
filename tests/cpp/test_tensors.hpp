// Tensors that own their memory, and a generator, for the C++ tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "backend/cpu/elements.hpp"
#include "contains.hpp"
#include "deepgemm/tensor.hpp"

namespace test {

using deepgemm::DType;
using deepgemm::TensorView;

// Small, seedable, the same on every platform (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed = 1) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Uniform in [low, high).
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

// Row-major unless changed through `view`; every element starts as 0.
struct Tensor {
  Tensor(DType dtype, std::initializer_list<std::int64_t> shape) {
    view = deepgemm::make_view(nullptr, dtype, shape);
    memory.resize(static_cast<std::size_t>(view.size() * deepgemm::size_in_bytes(dtype)) + 1);
    view.data = memory.data();
  }
  Tensor(Tensor&&) = default;
  Tensor(const Tensor&) = delete;

  std::int64_t offset(std::int64_t i, std::int64_t j) const {
    return view.rank == 1 ? i * view.strides[0] : i * view.strides[0] + j * view.strides[1];
  }
  double at(std::int64_t i, std::int64_t j = 0) const {
    double value = 0;
    deepgemm::cpu::load(deepgemm::cpu::Run{view, offset(i, j), 1, 1}, &value);
    return value;
  }
  void set(std::int64_t i, std::int64_t j, double value) {
    deepgemm::cpu::store(deepgemm::cpu::Run{view, offset(i, j), 1, 1}, &value);
  }
  template <class Function>
  Tensor& fill(Function&& function) {
    std::int64_t columns = view.rank == 1 ? 1 : view.shape[1];
    for (std::int64_t i = 0; i < view.shape[0]; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) set(i, j, function(i, j));
    }
    return *this;
  }

  std::vector<unsigned char> memory;
  TensorView view;
};

// The message of the exception of type Exception that `function` throws; "" if it throws nothing.
// Any other exception goes on.
template <class Exception, class Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  return {};
}

// Sets an environment variable for the scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~Environment() {
    if (had_)
      ::setenv(name_, old_.c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace test
