// NVTX is headers only: they ask the profiler that started the process (NVTX_INJECTION64_PATH) for
// its functions at the first range, and do nothing where there is none.
#include "driver/range.hpp"

#include "core/log.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define DEEPGEMM_HAS_NVTX 1
#else
#define DEEPGEMM_HAS_NVTX 0
#endif

namespace deepgemm::driver {

#if DEEPGEMM_HAS_NVTX
namespace {

nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t created = nvtxDomainCreateA("deepgemm");
  return created;
}

}  // namespace

void push_range(const char* name) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_range() noexcept { nvtxDomainRangePop(domain()); }
#else
void push_range(const char*) noexcept {
  try {
    log::warn_once("DEEPGEMM_NVTX: this library was built without the headers of NVTX");
  } catch (...) {  // out of memory
  }
}

void pop_range() noexcept {}
#endif

}  // namespace deepgemm::driver
