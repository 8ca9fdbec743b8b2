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

Launch::Launch(CUfunction function, const LaunchShape& shape) : function_(function) {
  config_.gridDimX = shape.grid;
  config_.gridDimY = config_.gridDimZ = 1;
  config_.blockDimX = shape.block;
  config_.blockDimY = config_.blockDimZ = 1;
  config_.sharedMemBytes = shape.shared_bytes;
  if (shape.cluster > 1) attributes_[config_.numAttrs++] = cluster_attribute(shape.cluster);
  if (shape.pdl) attributes_[config_.numAttrs++] = pdl_attribute();
}

void Launch::run(CUstream stream, void* parameters) const {
  CUlaunchConfig config = config_;
  config.hStream = stream;
  config.attrs = const_cast<CUlaunchAttribute*>(attributes_);  // only read
  void* arguments[] = {parameters};
  check(api().LaunchKernelEx(&config, function_, arguments, nullptr), "cuLaunchKernelEx");
}

void launch(CUfunction function, const LaunchShape& shape, CUstream stream, void* parameters) {
  Launch(function, shape).run(stream, parameters);
}

}  // namespace deepgemm::driver
