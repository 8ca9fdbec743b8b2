#include "core/deflate.hpp"

#include <algorithm>

#ifdef DEEPGEMM_ZLIB
#define ZLIB_CONST
#include <zlib.h>

#include <new>
#include <stdexcept>
#endif

namespace deepgemm::deflate {

#ifdef DEEPGEMM_ZLIB
namespace {

constexpr std::size_t chunk_bytes = 8 << 10;
constexpr std::size_t window_bytes = 32 << 10;  // of deflate
constexpr std::size_t bytes_before = 12 << 10;  // of the window, before the chunk's own place
constexpr int raw = -15;                        // no header and no checksum, 32 KiB of window

// zlib reads and writes bytes as unsigned char, and counts them in 32 bits.
const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }
Bytef* bytes_of(std::string& text) { return reinterpret_cast<Bytef*>(text.data()); }

std::size_t chunk_length(std::size_t left, std::string_view reference) {
  return reference.empty() ? left : std::min(left, chunk_bytes);
}

std::string_view dictionary(std::string_view reference, std::size_t at) {
  const std::size_t from = at > bytes_before ? at - bytes_before : 0;
  if (from >= reference.size()) return {};
  return reference.substr(from, window_bytes);
}

// Ends a stream of zlib.
struct Stream : z_stream {
  explicit Stream(int (*end)(z_streamp)) : z_stream{}, end_(end) {}
  ~Stream() { end_(this); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  int (*end_)(z_streamp);
};

}  // namespace

bool available() noexcept { return true; }

std::string pack(std::string_view bytes, std::string_view reference, int level) {
  if (bytes.size() > (std::size_t{1} << 30)) throw std::length_error("more than 1 GiB to deflate");
  Stream stream(deflateEnd);
  if (deflateInit2(&stream, level, Z_DEFLATED, raw, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string packed;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = chunk_length(bytes.size() - at, reference);
    const std::string_view known = dictionary(reference, at);
    if (!known.empty()) {
      deflateSetDictionary(&stream, bytes_of(known), static_cast<uInt>(known.size()));
    }
    std::string part(deflateBound(&stream, length), '\0');
    stream.next_in = bytes_of(bytes.substr(at));
    stream.avail_in = static_cast<uInt>(length);
    stream.next_out = bytes_of(part);
    stream.avail_out = static_cast<uInt>(part.size());
    if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::bad_alloc();
    packed.append(part, 0, part.size() - stream.avail_out);
    deflateReset(&stream);
    at += length;
  }
  return packed;
}

std::optional<std::string> unpack(std::string_view packed, std::size_t bytes,
                                  std::string_view reference) {
  if (bytes > (std::size_t{1} << 30) || packed.size() > (std::size_t{1} << 30)) return std::nullopt;
  Stream stream(inflateEnd);
  if (inflateInit2(&stream, raw) != Z_OK) return std::nullopt;
  std::string unpacked(bytes, '\0');
  stream.next_in = bytes_of(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t length = chunk_length(bytes - at, reference);
    const std::string_view known = dictionary(reference, at);
    if (!known.empty()) {
      inflateSetDictionary(&stream, bytes_of(known), static_cast<uInt>(known.size()));
    }
    stream.next_out = bytes_of(unpacked) + at;
    stream.avail_out = static_cast<uInt>(length);
    if (inflate(&stream, Z_FINISH) != Z_STREAM_END || stream.avail_out != 0) return std::nullopt;
    inflateReset(&stream);
    at += length;
  }
  if (stream.avail_in != 0) return std::nullopt;
  return unpacked;
}

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) noexcept {
  return static_cast<std::uint32_t>(crc32_z(before, bytes_of(bytes), bytes.size()));
}

#else

bool available() noexcept { return false; }
std::string pack(std::string_view, std::string_view, int) { return {}; }
std::optional<std::string> unpack(std::string_view, std::size_t, std::string_view) {
  return std::nullopt;
}
std::uint32_t crc32(std::string_view, std::uint32_t) noexcept { return 0; }

#endif

}  // namespace deepgemm::deflate
