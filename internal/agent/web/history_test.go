package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/unit"
)

// kept returns a History with so many seconds of a workload that used half a CPU and was throttled.
func kept(seconds int) *history.History {
	r := history.New(history.Options{})
	for second := range seconds {
		s := uint64(second) //nolint:gosec // it is small
		r.Add(time.Unix(int64(second), 0), []capability.Moment{{
			Quota: capability.Quota{Workload: "shop/web-0/app", Limit: 1, Now: 2, Credit: 3, Capacity: 4, Periods: 10 * s, Throttled: 2 * s, Above: s},
			Used:  unit.CPUTime(second) * 5e8, At: time.Duration(1+second) * time.Second,
		}})
	}
	return r
}

// damaged is a past that cannot be read.
type damaged struct{}

func (damaged) Longest() int { return history.Kept }
func (damaged) Of(string, int, int) (history.Past, bool, error) {
	return history.Past{}, true, history.ErrDamaged
}
func (damaged) Recent(int) (history.Past, error) { return history.Past{}, history.ErrDamaged }

// request sends a request to a handler like a program of this host.
func request(t *testing.T, h http.Handler, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	r.Host = "localhost"
	if change != nil {
		change(r)
	}
	h.ServeHTTP(answer, r)
	return answer
}

// TestHistory checks that the past of a workload is shown, and the throttling of all workloads. An error about a
// parameter names the permitted values.
func TestHistory(t *testing.T) {
	for name, test := range map[string]struct {
		past   Past
		target string
		code   int
		says   string
	}{
		"one":            {kept(3), "?workload=shop/web-0/app", http.StatusOK, `"times":[0,1000,2000],`},
		"used":           {kept(3), "?workload=shop%2Fweb-0%2Fapp", http.StatusOK, `"usedCPUs":[null,0.5,0.5],`},
		"all":            {kept(3), "", http.StatusOK, `"workloads":[{"name":"shop/web-0/app","periods":[null,10,10],"throttledPeriods":[null,2,2],"throttledPeriodsAbove":[null,1,1]}]`},
		"some seconds":   {kept(3), "?workload=shop/web-0/app&seconds=1", http.StatusOK, `"limitCPUs":[1],"nowCPUs":[2],"usedCPUs":[0.5],`},
		"empty":          {history.New(history.Options{}), "", http.StatusOK, `{"v":1,"times":[],"nodeUsedCPUs":[],"workloads":[]}`},
		"other workload": {kept(3), "?workload=shop/web-1/app", http.StatusNotFound, `workload "shop/web-1/app": nothing is kept`},
		"the node":       {kept(3), "?workload=", http.StatusNotFound, `workload "": nothing is kept`},
		"no past":        {nil, "", http.StatusNotFound, "no history is kept here"},
		"no number":      {kept(3), "?seconds=all", http.StatusBadRequest, `"seconds": out of range: value "all": allowed: 1 to 60`},
		"zero":           {kept(3), "?seconds=0", http.StatusBadRequest, `value "0": allowed`},
		"too many":       {kept(3), "?seconds=61", http.StatusBadRequest, `value "61": allowed: 1 to 60`},
		"too many of it": {kept(3), "?workload=a&seconds=901", http.StatusBadRequest, `value "901": allowed: 1 to 900`},
		"too long":       {kept(3), "?seconds=" + strings.Repeat("9", 40), http.StatusBadRequest, "allowed: 1 to 60"},
		"unknown":        {kept(3), "?steps=5", http.StatusBadRequest, `"steps": unknown parameter; allowed: workload, seconds, step`},
		"step":           {kept(60), "?workload=shop/web-0/app&seconds=20&step=20", http.StatusOK, `"times":[59000],`},
		"step of none":   {kept(3), "?workload=shop/web-0/app&step=0", http.StatusBadRequest, `"step": out of range: value "0": allowed: 1 to 3600`},
		"step of all":    {kept(3), "?step=5", http.StatusBadRequest, `"step": only allowed with workload`},
		"twice":          {kept(3), "?workload=a&workload=b", http.StatusBadRequest, `"workload": a parameter that is given twice`},
		"no parameters":  {kept(3), "?%zz", http.StatusBadRequest, "invalid URL escape"},
		"damaged":        {damaged{}, "?workload=a", http.StatusInternalServerError, "read history: damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			h := window.Guard(nil, NewNode((&host{}).look, quiet()).With(test.past).Handler())
			answer := request(t, h, window.PastPath+test.target, nil)
			if answer.Code != test.code || !strings.Contains(answer.Body.String(), test.says) {
				t.Errorf("%d %s, want %d %s", answer.Code, answer.Body, test.code, test.says)
			}
			if ok := json.Valid(answer.Body.Bytes()); ok != (test.code == http.StatusOK) || ok != (answer.Header().Get("Content-Type") == "application/json") {
				t.Errorf("%v: %s", answer.Header(), answer.Body)
			}
		})
	}
}

// TestHistoryIsGuarded checks that the past has the same guard as the page.
func TestHistoryIsGuarded(t *testing.T) {
	h := window.Guard(nil, NewNode((&host{}).look, quiet()).With(kept(3)).Handler())
	for name, test := range map[string]struct {
		change func(*http.Request)
		code   int
	}{
		"a program":    {func(*http.Request) {}, http.StatusOK},
		"HEAD":         {func(r *http.Request) { r.Method = http.MethodHead }, http.StatusOK},
		"writing":      {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"rebound name": {func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusMisdirectedRequest},
		"another site": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			answer := request(t, h, window.PastPath+"?workload=shop/web-0/app", test.change)
			if answer.Code != test.code || answer.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%d %v", answer.Code, answer.Header())
			}
		})
	}
}

// slow is a past whose reading lasts until a test ends it.
type slow struct {
	damaged
	begun, end chan struct{}
}

func (s *slow) Recent(int) (history.Past, error) {
	s.begun <- struct{}{}
	<-s.end
	return history.Past{}, nil
}

// TestHistoryInTurns checks that only a few answers are made at a time. A client without a turn in time is refused, and
// a client that leaves no longer waits.
func TestHistoryInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := &slow{begun: make(chan struct{}), end: make(chan struct{})}
		h := NewNode((&host{}).look, quiet()).With(past).Handler()
		codes := make(chan int)
		ask := func(ctx context.Context) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, window.PastPath, http.NoBody))
			codes <- answer.Code
		}
		for range mostReads {
			go ask(t.Context())
			<-past.begun
		}
		gone, leave := context.WithCancel(t.Context())
		go ask(gone)
		synctest.Wait()
		leave()
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("who went away got %d", code)
		}
		go ask(t.Context())
		if code := <-codes; code != http.StatusServiceUnavailable { // after its patience, by the fake clock
			t.Errorf("who came too late got %d", code)
		}
		go ask(t.Context())
		synctest.Wait()
		past.end <- struct{}{}
		<-past.begun // its turn
		for range mostReads {
			past.end <- struct{}{}
		}
		for range mostReads + 1 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("who had a turn got %d", code)
			}
		}
	})
}
