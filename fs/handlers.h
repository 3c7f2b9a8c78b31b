// SPDX-License-Identifier: Apache-2.0
//
// What stands between a request of the kernel and the Volume: the table of requests, the reply that is given exactly
// once, and guarded(), the door through which every request passes. A new request is a function in the on_*.cc of its
// subject and one line in handlers.cc.
//
// Errors:  an Error or an exception of a handler becomes the errno that to_errno() names; the daemon lives on.
// Threads: handlers run on all loop threads at once; a read may be answered by a worker of the Volume.
// Owns:    a Reply owns its request until it is answered; open files and directories belong to the kernel's handles
//          (fuse_file_info::fh) until release.
#pragma once

#include <fuse3/fuse_lowlevel.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "brevis/error.h"
#include "brevis/volume.h"
#include "latency.h"

namespace brevis::fs {

// Seconds for which the kernel may trust names and attributes: how soon a changed tree is seen.
constexpr double kAttributeSeconds = 1.0;

// What the handlers share; the session's user data.
struct Service {
  Volume& volume;
  unsigned max_background = 64;
  std::atomic<bool> initialised{false};  // the kernel's INIT was handled (its answer follows)
  std::string control;                   // path of the control socket, shown as an attribute of the root; empty: none
  Latencies latencies{};
};

Service& service_of(fuse_req_t request);

// The table of requests for fuse_session_new().
const fuse_lowlevel_ops& request_table();

// The answer to one request. Every way out gives exactly one: a Reply that is dropped unanswered says EIO.
class Reply {
 public:
  Reply(fuse_req_t request, Histogram& latency) : request_(request), latency_(&latency) {}
  Reply(Reply&& other) noexcept
      : request_(std::exchange(other.request_, nullptr)), latency_(other.latency_), began_(other.began_) {}
  Reply& operator=(Reply&&) = delete;
  ~Reply() { errnum(EIO); }

  // Still to be answered?
  bool pending() const { return request_ != nullptr; }

  void ok() { errnum(0); }
  void errnum(int value);
  void error(const Error& error) { errnum(to_errno(error)); }
  // Returns false when the kernel no longer wants the answer (the caller then takes back what it handed out).
  bool entry(const fuse_entry_param& entry);
  void attributes(const struct stat& attributes);
  void link(const std::string& target);
  bool opened(const fuse_file_info& info);
  bool bytes(const void* data, size_t size);
  // The parts go out as they lie in memory; the caller keeps them alive until this returns.
  void parts(const ReadResult& result, size_t asked);
  void space(const struct statvfs& space);
  void attribute_size(size_t size);
  void position(off_t offset);

 private:
  using Clock = std::chrono::steady_clock;
  fuse_req_t take() {
    latency_->observe(Clock::now() - began_);
    return std::exchange(request_, nullptr);
  }
  fuse_req_t request_;
  Histogram* latency_;
  Clock::time_point began_ = Clock::now();
};

// Logs what escaped from a handler.
void log_escaped(const char* request, const char* what) noexcept;

// Runs a handler's body, `Status body(Reply&)`: its Error and whatever it throws become the reply.
template <class Body>
void guarded(fuse_req_t request, const char* name, Body&& body) noexcept {
  Reply reply(request, service_of(request).latencies.of(name));
  try {
    const Status status = body(reply);
    if (!status) reply.error(status.error());
  } catch (const std::bad_alloc&) {
    reply.errnum(ENOMEM);
  } catch (const std::exception& e) {
    log_escaped(name, e.what());
    reply.errnum(EIO);
  } catch (...) {
    log_escaped(name, "unknown exception");
    reply.errnum(EIO);
  }
}

// The same for requests that have no answer.
template <class Body>
void guarded_silent(fuse_req_t request, const char* name, Body&& body) noexcept {
  try {
    body();
  } catch (const std::exception& e) {
    log_escaped(name, e.what());
  } catch (...) {
    log_escaped(name, "unknown exception");
  }
  fuse_reply_none(request);
}

struct stat to_stat(const NodeAttr& attributes);
fuse_entry_param to_entry(const NodeAttr& attributes);

// on_node.cc
void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name);
void on_forget(fuse_req_t request, fuse_ino_t node, uint64_t count);
void on_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets);
void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info* info);
void on_readlink(fuse_req_t request, fuse_ino_t node);
// on_dir.cc
void on_opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* info);
void on_readdir(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info);
void on_readdirplus(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info);
void on_releasedir(fuse_req_t request, fuse_ino_t node, fuse_file_info* info);
// on_file.cc
void on_open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info);
void on_read(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info);
void on_lseek(fuse_req_t request, fuse_ino_t node, off_t offset, int whence, fuse_file_info* info);
void on_release(fuse_req_t request, fuse_ino_t node, fuse_file_info* info);
const std::shared_ptr<FileHandle>& file_of(const fuse_file_info& info);
// on_meta.cc
void on_init(void* user_data, fuse_conn_info* connection);
void on_statfs(fuse_req_t request, fuse_ino_t node);
void on_getxattr(fuse_req_t request, fuse_ino_t node, const char* name, size_t size);
void on_listxattr(fuse_req_t request, fuse_ino_t node, size_t size);

}  // namespace brevis::fs
