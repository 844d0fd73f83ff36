package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// procsEvery is how often the server reads GOMAXPROCS: the runtime changes it at most once a second.
const procsEvery = 250 * time.Millisecond

// Procs is how Go's runtime sized a server whose GOMAXPROCS it may choose.
type Procs struct {
	// Max is GOMAXPROCS now; Changes is how often it has changed so far.
	Max     int   `json:"gomaxprocs"`
	Changes int64 `json:"changes"`
	// Threads is the number of threads of the process: the runtime ends none.
	Threads int `json:"threads"`
}

// procsWatch counts the changes of GOMAXPROCS.
type procsWatch struct{ changes atomic.Int64 }

// run counts changes until ctx ends, starting from before. Reading does not keep the runtime from changing GOMAXPROCS.
func (w *procsWatch) run(ctx context.Context, before int) {
	for Pause(ctx, procsEvery) == nil {
		if now := runtime.GOMAXPROCS(0); now != before {
			before = now
			w.changes.Add(1)
		}
	}
}

// serve answers with the Procs as JSON.
func (w *procsWatch) serve(out http.ResponseWriter, _ *http.Request) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(out).Encode(Procs{Max: runtime.GOMAXPROCS(0), Changes: w.changes.Load(), Threads: len(threads)}) // the client may be gone
}

// ReadProcs asks a server for its Procs.
func ReadProcs(ctx context.Context, address string) (p Procs, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/procs", http.NoBody)
	if err != nil {
		return p, fmt.Errorf("read procs: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return p, fmt.Errorf("read procs: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
		return p, fmt.Errorf("read procs of %s: %w", address, err)
	}
	return p, nil
}
