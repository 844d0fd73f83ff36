package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// MaxWork is the most CPU time one request may ask for.
const MaxWork = time.Second

// serverMemory is the memory size at which garbage collection starts. A run allocates less, so that no collection falls
// into a measured request.
const serverMemory = 192 << 20

// ServerConfig configures a request server.
type ServerConfig struct {
	// Address is where the server listens; empty means a free port on 127.0.0.1. Only loopback addresses are allowed.
	Address string
	// Workers bounds the requests that the server works on at once, at least 1; other requests wait in order.
	Workers int
	// CPUs is the number of online CPUs and becomes GOMAXPROCS; 0 leaves the choice to Go's runtime, which follows the
	// quota of the group that the process started in.
	CPUs int
}

// Serve answers GET /work?us=N by burning N microseconds of CPU time on one thread, until ctx ends. It calls ready once
// with the address it listens on. It sets process-wide runtime parameters (GOMAXPROCS, the collector), so it needs a
// process of its own.
func Serve(ctx context.Context, config ServerConfig, ready func(address string)) error {
	if config.Workers < 1 || config.CPUs < 0 {
		return fmt.Errorf("server with %d workers on %d CPUs: %w", config.Workers, config.CPUs, ErrBadLoad)
	}
	listener, err := listen(ctx, config.Address)
	if err != nil {
		return err
	}
	var watch procsWatch
	if config.CPUs > 0 {
		runtime.GOMAXPROCS(config.CPUs)
	} else {
		go watch.run(ctx, runtime.GOMAXPROCS(0))
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(serverMemory)
	server := &http.Server{Handler: newHandler(config.Workers, &watch), ReadHeaderTimeout: time.Minute}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	ready(listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", address, err)
	}
	if !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("listen %s: not a loopback address: %w", address, ErrBadLoad)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", address, err)
	}
	return listener, nil
}

// newHandler returns the work handler with room for the given number of requests at once. The goroutine that burned
// also answers, so a finished request never waits for the turn of another request.
func newHandler(workers int, watch *procsWatch) http.Handler {
	slots := make(chan struct{}, workers)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /work", func(w http.ResponseWriter, r *http.Request) {
		micros, err := strconv.ParseInt(r.URL.Query().Get("us"), 10, 64)
		work := time.Duration(micros) * time.Microsecond
		if err != nil || work < 0 || work > MaxWork {
			http.Error(w, fmt.Sprintf("us must be 0..%d", MaxWork.Microseconds()), http.StatusBadRequest)
			return
		}
		slots <- struct{}{}
		err = Burn(work)
		<-slots
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /procs", watch.serve)
	return mux
}

// Burn uses the CPU until the calling thread has used d more CPU time than before, within some microseconds. It fails
// only when the clock fails.
func Burn(d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := kernel.ThreadCPUTime()
	if err != nil {
		return fmt.Errorf("burn %s: %w", d, err)
	}
	for x := uint64(1); ; x = spin(x, 2000) {
		now, err := kernel.ThreadCPUTime()
		if err != nil {
			return fmt.Errorf("burn %s: %w", d, err)
		}
		if now-begin >= d {
			return nil
		}
	}
}

// spin does a few microseconds of arithmetic, so that burning is mostly user time and not the clock's system call.
func spin(x uint64, rounds int) uint64 {
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
