// What a profiler injects: NVTX asks the library that NVTX_INJECTION64_PATH names for its
// functions. This one counts the ranges of a domain and keeps their names, which a test asks for.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

std::mutex mutex;
std::string names;  // "domain: name" of each range, one a line
std::string domain_name;
int depth = 0;

nvtxDomainHandle_t create_domain(const char* name) {
  std::lock_guard lock(mutex);
  domain_name = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain_name);
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  std::lock_guard lock(mutex);
  const bool ours = domain == reinterpret_cast<nvtxDomainHandle_t>(&domain_name);
  names += (ours ? domain_name : "none") + ": " + attributes->message.ascii + "\n";
  return depth++;
}

int pop(nvtxDomainHandle_t) {
  std::lock_guard lock(mutex);
  return --depth;
}

template <class Function>
void set(NvtxFunctionTable table, int id, Function function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

FAKE_API int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

// The names of all ranges so far; empties them. "unbalanced" if one is open.
FAKE_API const char* fake_nvtx_take() {
  static std::string taken;
  std::lock_guard lock(mutex);
  taken = depth == 0 ? names : "unbalanced";
  names.clear();
  return taken.c_str();
}
