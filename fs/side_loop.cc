// SPDX-License-Identifier: Apache-2.0
#include "side_loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <thread>

#include "brevis/log.h"
#include "control_connection.h"
#include "metrics_connection.h"

namespace brevis::fs {

namespace {

namespace asio = boost::asio;

constexpr unsigned kMostConnections = 32;         // at each door
constexpr std::chrono::milliseconds kPause{200};  // after a failed accept: out of descriptors, mostly

// One door: takes callers in, up to a number.
template <class Connection, class... Context>
class Door : public std::enable_shared_from_this<Door<Connection, Context...>> {
 public:
  Door(asio::io_context& loop, int fd, Context&... context)
      : loop_(loop), fd_(loop, dup(fd)), pause_(loop), context_(context...) {}

  void next() {
    fd_.async_wait(asio::posix::stream_descriptor::wait_read, [self = this->shared_from_this()](auto failed) {
      if (!failed) self->accept_all();
    });
  }
  void close() {
    boost::system::error_code ignored;
    fd_.close(ignored);
    pause_.cancel();
  }

 private:
  void accept_all() {
    for (;;) {
      const int caller = accept4(fd_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (caller < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (caller < 0 && errno == EAGAIN) return next();
      if (caller < 0) return rest();
      if (count_.use_count() > static_cast<long>(kMostConnections)) {
        ::close(caller);  // more at once than any honest use has
        continue;
      }
      std::apply([&](auto&... context) { std::make_shared<Connection>(loop_, caller, count_, context...)->start(); },
                 context_);
    }
  }
  void rest() {
    pause_.expires_after(kPause);
    pause_.async_wait([self = this->shared_from_this()](auto failed) {
      if (!failed) self->next();
    });
  }

  asio::io_context& loop_;
  asio::posix::stream_descriptor fd_;
  asio::steady_timer pause_;
  std::tuple<Context&...> context_;
  std::shared_ptr<int> count_ = std::make_shared<int>(0);  // held by each connection
};

class Loop final : public SideLoop {
 public:
  Loop(int control_fd, int metrics_fd, SideActions actions) : shared_{std::move(actions), {}, jobs_} {
    if (control_fd >= 0)
      control_ = std::make_shared<Door<ControlConnection, ControlShared>>(loop_, control_fd, shared_);
    if (metrics_fd >= 0)
      metrics_ = std::make_shared<Door<MetricsConnection, const SideActions>>(loop_, metrics_fd, shared_.actions);
  }
  // Without this a loop that never ran would be joined for ever.
  ~Loop() override { jobs_.stop(); }

  Status begin() {
    if (control_) control_->next();
    if (metrics_) metrics_->next();
    try {
      thread_ = std::thread([this, done = std::move(done_promise_)]() mutable {
        run();
        done.set_value();
      });
    } catch (const std::system_error& e) {
      return make_error(Errc::internal, std::string("cannot start a thread: ") + e.what());
    }
    return {};
  }

  bool stop(std::chrono::milliseconds limit) override {
    if (!thread_.joinable()) return true;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    shared_.stopping = true;
    asio::post(loop_, [this] {
      if (control_) control_->close();
      if (metrics_) metrics_->close();
    });
    // Work that was cancelled still tells its caller so; then the loop runs dry of it.
    auto jobs_done = std::make_shared<std::promise<void>>();
    auto jobs_ended = jobs_done->get_future();
    asio::post(jobs_, [jobs_done] { jobs_done->set_value(); });
    if (jobs_ended.wait_until(deadline) != std::future_status::ready) return false;
    asio::post(loop_, [this] { asio::post(loop_, [this] { loop_.stop(); }); });
    if (done_.wait_until(deadline) != std::future_status::ready) return false;
    thread_.join();
    return true;
  }

 private:
  void run() {
    for (;;) {
      try {
        loop_.run();
        return;
      } catch (const std::exception& e) {
        log(LogLevel::error, "internal fault at the control socket or the metrics", {{"cause", e.what()}});
      }
    }
  }

  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_{loop_.get_executor()};
  asio::thread_pool jobs_{1};
  ControlShared shared_;
  std::shared_ptr<Door<ControlConnection, ControlShared>> control_;
  std::shared_ptr<Door<MetricsConnection, const SideActions>> metrics_;
  std::promise<void> done_promise_;
  std::future<void> done_ = done_promise_.get_future();
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<SideLoop>> SideLoop::start(int control_fd, int metrics_fd, SideActions actions) {
  auto loop = std::make_unique<Loop>(control_fd, metrics_fd, std::move(actions));
  BREVIS_TRY(loop->begin());
  return std::unique_ptr<SideLoop>(std::move(loop));
}

}  // namespace brevis::fs
