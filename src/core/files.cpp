#include "core/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
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
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
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

// A file may have any time; those that 64 bits cannot hold become the nearest that they can.
std::int64_t nanoseconds(const timespec& time) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 1'000'000'000 - 1;
  const std::int64_t seconds = std::clamp<std::int64_t>(time.tv_sec, -most, most);
  return seconds * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::optional<std::string> read(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return std::nullopt;
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (info.st_size > static_cast<off_t>(largest_file)) return std::nullopt;
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(count));
    if (bytes.size() > largest_file) return std::nullopt;  // it grew meanwhile
  }
}

std::string write_atomically(const std::string& path, std::string_view bytes, unsigned mode) {
  // The same directory, so that rename() stays within one file system and is atomic.
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return why("create", temporary, errno);
  int error = write_all(file.get(), bytes);
  if (error == 0 && mode != 0600 && ::fchmod(file.get(), mode) != 0) error = errno;
  // Without fsync a crash can leave an empty file under the final name.
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (int close_error = file.close(); error == 0) error = close_error;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return why("write", path, error);
}

std::string append(const std::string& path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
  if (file.get() < 0) return why("open", path, errno);
  // One write() while all goes well; the rest of a short one still belongs to the end.
  int error = write_all(file.get(), bytes);
  if (int close_error = file.close(); error == 0) error = close_error;
  return error == 0 ? std::string() : why("write", path, error);
}

std::string working_directory() {
  std::unique_ptr<char, decltype(&std::free)> path(::getcwd(nullptr, 0), &std::free);
  return path ? std::string(path.get()) : std::string();
}

std::string why_not_writable(const std::string& directory) {
  std::string place = directory;
  while (!is_directory(place)) {
    const std::size_t slash = place.rfind('/');
    if (slash == std::string::npos) return why("find", directory, ENOENT);
    if (struct stat info{}; ::lstat(place.c_str(), &info) == 0) return place + " is no directory";
    place.resize(std::max<std::size_t>(slash, 1));
  }
  // O_TMPFILE has no name, so that even a crash leaves nothing. Not every file system has it.
  std::string name;
  Descriptor file(::open(place.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    name = place + "/probe.deepgemm.XXXXXX";
    file.reset(::mkostemp(name.data(), O_CLOEXEC));
    if (file.get() < 0) return why("create a file in", place, errno);
    ::unlink(name.c_str());
  }
  const std::string bytes(std::size_t{1} << 16, '\0');
  int error = write_all(file.get(), bytes);
  if (const int close_error = file.close(); error == 0) error = close_error;
  return error == 0 ? std::string() : why("write a file in", place, error);
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

std::optional<Status> status(const std::string& path) noexcept {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) return std::nullopt;
  return Status{static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim)};
}

std::int64_t now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return nanoseconds(time);
}

bool touch(const std::string& path) noexcept {
  // Why both times: then the right to write is enough, and the file need not be ours.
  return ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace deepgemm::files
