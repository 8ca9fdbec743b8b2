// Against the fake driver, whose device memory lies on the host.
#include "deepgemm/device_memory.hpp"

#include <doctest/doctest.h>

#include <array>

#include "fake_driver/fake_driver.hpp"

using namespace deepgemm;

TEST_CASE("memory goes to the device and back") {
  fake::use_fake_driver();
  void* memory = allocate_device_memory(16, 0);
  REQUIRE(memory != nullptr);
  std::array<unsigned char, 16> sent{}, received{};
  for (unsigned char i = 0; i < 16; ++i) sent[i] = i;
  copy_to_device(memory, sent.data(), sent.size(), 0);
  copy_to_host(received.data(), memory, received.size(), 0);
  CHECK(received == sent);
  fill_device_memory(memory, 0xA5, 16, 0);
  copy_to_host(received.data(), memory, received.size(), 0);
  for (unsigned char byte : received) CHECK(byte == 0xA5);
  synchronize_stream(nullptr, 0);
  synchronize_device(0);
  free_device_memory(memory, 0);
}

TEST_CASE("nothing is asked of the driver for no bytes") {
  fake::use_fake_driver();
  CHECK(allocate_device_memory(0, 0) == nullptr);
  copy_to_device(nullptr, nullptr, 0, 0);
  copy_to_host(nullptr, nullptr, 0, 0);
  fill_device_memory(nullptr, 0, 0, 0);
  free_device_memory(nullptr, 0);
}

TEST_CASE("a device that does not exist is an error that frees nothing twice") {
  fake::use_fake_driver();
  CHECK_THROWS_AS(allocate_device_memory(16, 7), Error);
  int not_device_memory = 0;
  free_device_memory(&not_device_memory, 7);  // swallowed
}

TEST_CASE("a failure of the driver is a DriverError that names the call") {
  fake::CudaState& state = fake::use_fake_driver();
  state.fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_WITH_AS(allocate_device_memory(16, 0), doctest::Contains("cuMemAlloc"), DriverError);
  state.failures.clear();
  CHECK(state.allocations == 0);
}
