// Streams: whether a CUDA graph captures one, and memory read in a stream's order.
#include "driver/driver.hpp"

namespace deepgemm::driver {

RelaxedCapture::RelaxedCapture() {
  check(api().ThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

RelaxedCapture::~RelaxedCapture() { api().ThreadExchangeStreamCaptureMode(&mode_); }

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = api().StreamIsCapturing(stream, &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;  // of the legacy default stream
  check(result, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void read_memory(void* host, const void* device_memory, std::size_t bytes, CUstream stream) {
  const RelaxedCapture relaxed;  // another stream may be captured meanwhile
  const auto address = reinterpret_cast<CUdeviceptr>(device_memory);
  check(api().MemcpyDtoHAsync(host, address, bytes, stream), "cuMemcpyDtoHAsync");
  check(api().StreamSynchronize(stream), "cuStreamSynchronize");
}

}  // namespace deepgemm::driver
