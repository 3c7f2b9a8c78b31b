// SPDX-License-Identifier: Apache-2.0
//
// Two file systems for tests and measurements, in front until they are unmounted:
//
//   peer_fs nothing BYTES MOUNTPOINT     one file `model` of so many bytes, answered from one buffer: what FUSE alone
//   costs peer_fs slow DIR RATE MOUNTPOINT     the regular files of DIR, at RATE bytes a second in all and with a delay
//   of
//                                        1 ms each read, as storage far away; nothing is kept by the kernel
//
// Settings of both are those of brevis-mount: steady threads, as many as cores, requests of 1 MiB, keep_cache
// (nothing). Threads: loop threads of its own. Errors: said on stderr, exit 1.
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct PeerFile {
  std::string name;
  struct stat st = {};
  int fd = -1;
};

struct Peer {
  std::vector<PeerFile> files;  // node = index + 2
  std::vector<uint8_t> buffer;  // what `nothing` answers
  double rate = 0;              // bytes a second; 0: `nothing`
  std::mutex mutex;
  Clock::time_point free_at{};  // when the line is free again
};

Peer& peer_of(fuse_req_t request) { return *static_cast<Peer*>(fuse_req_userdata(request)); }

bool stat_of(Peer& peer, fuse_ino_t node, struct stat& st) {
  st = {};
  if (node == FUSE_ROOT_ID) {
    st.st_ino = 1, st.st_mode = S_IFDIR | 0755, st.st_nlink = 2;
    return true;
  }
  if (node < 2 || node - 2 >= peer.files.size()) return false;
  st = peer.files[node - 2].st;
  st.st_ino = node;
  return true;
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_background = 64;
  connection->max_readahead = 64u << 20;
}

void on_lookup(fuse_req_t request, fuse_ino_t, const char* name) {
  Peer& peer = peer_of(request);
  for (size_t i = 0; i < peer.files.size(); ++i) {
    if (peer.files[i].name != name) continue;
    fuse_entry_param entry = {};
    entry.ino = i + 2;
    entry.attr_timeout = entry.entry_timeout = 60;
    stat_of(peer, entry.ino, entry.attr);
    fuse_reply_entry(request, &entry);
    return;
  }
  fuse_reply_err(request, ENOENT);
}

void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  struct stat st;
  if (stat_of(peer_of(request), node, st))
    fuse_reply_attr(request, &st, 60);
  else
    fuse_reply_err(request, ENOENT);
}

void on_open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  info->keep_cache = peer_of(request).rate == 0;
  fuse_reply_open(request, info);
}

void on_readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info*) {
  Peer& peer = peer_of(request);
  std::vector<char> out(size);
  size_t used = 0;
  for (size_t i = static_cast<size_t>(offset); i < peer.files.size(); ++i) {
    struct stat st;
    stat_of(peer, i + 2, st);
    const size_t more = fuse_add_direntry(request, out.data() + used, size - used, peer.files[i].name.c_str(), &st,
                                          static_cast<off_t>(i + 1));
    if (more > size - used) break;
    used += more;
  }
  fuse_reply_buf(request, out.data(), used);
}

// Waits for our turn on the line and then for as long as the bytes take.
void take_the_line(Peer& peer, size_t bytes) {
  Clock::time_point until;
  {
    const std::lock_guard lock(peer.mutex);
    const auto now = Clock::now();
    if (peer.free_at < now) peer.free_at = now;
    peer.free_at += std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / peer.rate));
    until = peer.free_at;
  }
  std::this_thread::sleep_until(until + std::chrono::milliseconds(1));
}

void on_read(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info*) {
  Peer& peer = peer_of(request);
  const PeerFile& file = peer.files[node - 2];
  if (peer.rate == 0) {
    const auto left = static_cast<size_t>(std::max<off_t>(file.st.st_size - offset, 0));
    size = std::min({size, left, peer.buffer.size()});
    fuse_reply_buf(request, reinterpret_cast<const char*>(peer.buffer.data()), size);
    return;
  }
  std::vector<char> bytes(size);
  const ssize_t got = pread(file.fd, bytes.data(), size, offset);
  if (got < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  take_the_line(peer, static_cast<size_t>(got));
  fuse_reply_buf(request, bytes.data(), static_cast<size_t>(got));
}

constexpr fuse_lowlevel_ops kRequests = {
    .init = on_init,
    .lookup = on_lookup,
    .getattr = on_getattr,
    .open = on_open,
    .read = on_read,
    .readdir = on_readdir,
};

bool fill_slow(Peer& peer, const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (!dir) return false;
  while (const dirent* entry = readdir(dir)) {
    PeerFile file;
    file.name = entry->d_name;
    file.fd = open((folder + "/" + file.name).c_str(), O_RDONLY | O_CLOEXEC);
    if (file.fd >= 0 && fstat(file.fd, &file.st) == 0 && S_ISREG(file.st.st_mode)) peer.files.push_back(file);
  }
  closedir(dir);
  return true;
}

void loop(fuse_session* session) {
  fuse_buf buffer = {};
  while (!fuse_session_exited(session)) {
    const int got = fuse_session_receive_buf(session, &buffer);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    fuse_session_process_buf(session, &buffer);
  }
  std::free(buffer.mem);
}

int serve(Peer& peer, const char* mountpoint, unsigned threads) {
  fuse_args args = FUSE_ARGS_INIT(0, nullptr);
  for (const char* word : {"peer_fs", "-o", "ro,fsname=peer_fs,subtype=peer"}) fuse_opt_add_arg(&args, word);
  fuse_session* session = fuse_session_new(&args, &kRequests, sizeof kRequests, &peer);
  if (!session || fuse_session_mount(session, mountpoint) != 0) return 1;
  std::vector<std::thread> loops;
  for (unsigned i = 0; i < threads; ++i) loops.emplace_back(loop, session);
  for (std::thread& thread : loops) thread.join();
  return 0;  // whoever unmounted it ended it
}

}  // namespace

int main(int argc, char** argv) {
  Peer peer;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "nothing" && argc == 4) {
    peer.buffer.resize(size_t{1} << 20);
    uint64_t word = 88172645463325252u;
    for (uint8_t& byte : peer.buffer) {
      word ^= word << 13, word ^= word >> 7, word ^= word << 17;
      byte = static_cast<uint8_t>(word);
    }
    PeerFile file;
    file.name = "model";
    file.st.st_mode = S_IFREG | 0444;
    file.st.st_nlink = 1;
    file.st.st_size = std::atoll(argv[2]);
    peer.files.push_back(file);
    return serve(peer, argv[3], std::max(2u, std::thread::hardware_concurrency()));
  }
  if (mode == "slow" && argc == 5) {
    peer.rate = std::atof(argv[3]);
    if (peer.rate <= 0 || !fill_slow(peer, argv[2])) return std::fprintf(stderr, "peer_fs: bad DIR or RATE\n"), 1;
    return serve(peer, argv[4], 16);
  }
  std::fputs("usage: peer_fs nothing BYTES MOUNTPOINT | peer_fs slow DIR RATE MOUNTPOINT\n", stderr);
  return 2;
}
