#include "jit/disassembler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/kernel.hpp"

namespace deepgemm::jit {
namespace {

// Directories of PATH first, as a shell would look.
std::vector<std::string> directories() {
  std::vector<std::string> found;
  const std::string path = env::foreign("PATH").value_or("");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) found.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto toolkit = env::foreign(variable)) found.push_back(*toolkit + "/bin");
  }
  const std::string nvrtc = nvrtc_info().path;
  const std::size_t slash = nvrtc.rfind('/');
  if (slash != std::string::npos) found.push_back(nvrtc.substr(0, slash) + "/../bin");
  found.emplace_back("/usr/local/cuda/bin");
  return found;
}

// The exit status of nvdisasm with its output in a file, or the errno of what kept it from running
// as a negative number.
int run(const std::string& program, const std::string& cubin, const std::string& output) {
  posix_spawn_file_actions_t actions;
  if (const int error = posix_spawn_file_actions_init(&actions)) return -error;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string arguments[] = {program, "--print-code", cubin};
  char* const argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  char* const environment[] = {nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -error;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string find_disassembler() {
  for (const std::string& directory : directories()) {
    std::string path = directory + "/nvdisasm";
    if (::access(path.c_str(), X_OK) == 0 && !files::is_directory(path)) return path;
  }
  return {};
}

std::string disassemble(const std::string& cubin, const std::string& output) {
  const std::string program = find_disassembler();
  if (program.empty()) {
    log::write(log::Level::info,
               "no SASS is dumped: no nvdisasm was found (pip install nvidia-cuda-nvdisasm)");
    return {};
  }
  const int status = run(program, cubin, output);
  if (status == 0) return {};
  files::remove(output);
  if (status < 0) {
    return join("cannot run ", program, ": ", std::generic_category().message(-status));
  }
  return join(program, " of ", cubin, " failed with exit code ", status);
}

}  // namespace deepgemm::jit
