#include "core/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "core/text.hpp"

namespace deepgemm::files {
namespace {

std::string why(std::string_view what, std::string_view path, int error) {
  return join("cannot ", what, " ", path, ": ", std::generic_category().message(error));
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // Some file systems report a full disk only here. Returns errno, or 0.
  int close() {
    int result = ::close(fd_);
    fd_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

// Returns errno, or 0.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::optional<std::string> read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(count));
  }
}

std::string write_atomically(const std::string& path, std::string_view bytes) {
  // The same directory, so that rename() stays within one file system and is atomic.
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return why("create", temporary, errno);
  int error = write_all(file.get(), bytes);
  // Without fsync a crash can leave an empty file under the final name.
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (int close_error = file.close(); error == 0) error = close_error;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return why("write", path, error);
}

std::string make_directories(const std::string& path) {
  if (path.empty()) return "cannot create a directory with an empty name";
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    // EEXIST: it was there, or another process was faster. Some file systems (automounts, read-only
    // parents) give another error for a directory that exists, so the question is only: is it
    // there?
    if (::mkdir(part.c_str(), 0700) != 0) {
      int error = errno;
      if (!is_directory(part)) return why("create directory", part, error);
    }
    if (end == std::string::npos) return {};
  }
}

std::string why_not_private(const std::string& path) {
  struct stat link{}, info{};
  if (::lstat(path.c_str(), &link) != 0 || ::stat(path.c_str(), &info) != 0) {
    return why("look at", path, errno);
  }
  if (!S_ISDIR(info.st_mode)) return join(path, " is not a directory");
  auto foreign = [](uid_t owner) { return owner != ::geteuid() && owner != 0; };
  // A link that someone else owns could be turned to another directory between two calls.
  if (foreign(info.st_uid) || foreign(link.st_uid)) {
    return join(path, " belongs to user ", foreign(info.st_uid) ? info.st_uid : link.st_uid,
                ", not to user ", ::geteuid());
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return join(path, " can be written by other users; chmod go-w would make it acceptable");
  }
  return {};
}

std::vector<std::string> list(const std::string& directory, std::string_view suffix) {
  std::vector<std::string> names;
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name.ends_with(suffix)) names.emplace_back(name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

bool remove(const std::string& path) noexcept { return ::unlink(path.c_str()) == 0; }

}  // namespace deepgemm::files
