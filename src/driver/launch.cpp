#include "driver/driver.hpp"

namespace deepgemm::driver {
namespace {

CUlaunchAttribute cluster_attribute(unsigned size) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = size;
  attribute.value.clusterDim.y = 1;
  attribute.value.clusterDim.z = 1;
  return attribute;
}

CUlaunchAttribute pdl_attribute() {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

}  // namespace

void launch(CUfunction function, const LaunchShape& shape, CUstream stream, void* parameters) {
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config{};
  config.gridDimX = shape.grid;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = shape.block;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  if (shape.cluster > 1) attributes[config.numAttrs++] = cluster_attribute(shape.cluster);
  if (shape.pdl) attributes[config.numAttrs++] = pdl_attribute();
  void* arguments[] = {parameters};
  check(api().LaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

}  // namespace deepgemm::driver
