package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/unit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the beginning of the tests' history.
const start = 1_795_435_200

// moment returns a moment of a workload, which uses half a CPU of its limit of 2. It runs in 10 periods per second and
// is throttled in 2 of them. It has 60 s of credit, 1 s less each second.
func moment(name string, second int) capability.Moment {
	s := uint64(second) //nolint:gosec // it is small
	return capability.Moment{
		Quota: capability.Quota{Workload: name, Limit: 2, Now: 4, Credit: float64(60 - second), Capacity: 120, Periods: 10 * s, Throttled: 2 * s, Above: s},
		Used:  unit.CPUTime(second) * 5e8, At: time.Duration(1+second) * time.Second,
	}
}

// ofNode returns the node's moment: it uses 3 CPUs.
func ofNode(second int) capability.Moment {
	nan := math.NaN()
	return capability.Moment{
		Quota: capability.Quota{Limit: nan, Now: nan, Credit: nan, Capacity: nan},
		Used:  unit.CPUTime(second) * 3e9, At: time.Duration(1+second) * time.Second,
	}
}

// kept returns a History of so many seconds: of the node, of shop/web-0/app, which has no limit in its last 20 s, and
// of redis, which exists only from second 40 to 60.
func kept(seconds int) *history.History {
	h := history.New(history.Options{})
	for second := range seconds {
		web := moment("shop/web-0/app", second)
		if second >= seconds-20 {
			web.Limit, web.Now, web.Capacity = -1, -1, -1
		}
		all := []capability.Moment{ofNode(second), web}
		if second >= 40 && second < 60 {
			all = append(all, moment("redis", second))
		}
		h.Add(time.Unix(int64(start+second), 0), all)
	}
	return h
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// ask requests a path with parameters, and returns the status and the body.
func ask(t *testing.T, h http.Handler, path string, parameters ...string) (int, string) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Add(parameters[i], parameters[i+1])
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"?"+values.Encode(), http.NoBody))
	return answer.Code, answer.Body.String()
}

// at returns a moment of the tests as a parameter.
func at(second int) string { return strconv.Itoa(start + second) }

// instant returns the result of a query at a second, as labels and values.
func instant(t *testing.T, h http.Handler, second int, text string) string {
	t.Helper()
	code, body := ask(t, h, "/api/v1/query", "query", text, "time", at(second))
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", text, code, body)
	}
	var a struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	if a.Data.ResultType == "scalar" {
		return string(a.Data.Result)
	}
	var samples []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(a.Data.Result, &samples); err != nil {
		t.Fatal(err)
	}
	all := make([]string, 0, len(samples))
	for _, s := range samples {
		all = append(all, strings.TrimSpace(fmt.Sprint(s.Metric["__name__"], " ", s.Metric["workload"], " ", s.Value[1])))
	}
	return strings.Join(all, "; ")
}

// TestQuery checks that queries in Prometheus' language return the recorded values.
func TestQuery(t *testing.T) {
	h := New(kept(300), quiet()).Handler()
	for text, want := range map[string]struct {
		second int
		result string
	}{
		`1+1`:                                                          {0, fmt.Sprintf(`[%d,"2"]`, start)},
		`berth_cpu_limit_cpus`:                                         {100, `berth_cpu_limit_cpus shop/web-0/app 2`},
		`berth_cpu_limit_cpus + 0`:                                     {290, `shop/web-0/app +Inf`},
		`berth_node_used_cpus`:                                         {100, `berth_node_used_cpus  3`},
		`sum(berth_cpu_used_cpus)`:                                     {50, `1`},
		`berth_burst_credit_cpu_seconds`:                               {59, `berth_burst_credit_cpu_seconds redis 1; berth_burst_credit_cpu_seconds shop/web-0/app 1`},
		`count(berth_cpu_quota_cpus)`:                                  {60, `1`}, // redis ended in this second
		`count(berth_cpu_quota_cpus) + 0`:                              {39, `1`},
		`count(berth_cpu_quota_cpus) + 00`:                             {40, `2`},
		`berth_cpu_quota_cpus{workload=~"re.*"}`:                       {45, `berth_cpu_quota_cpus redis 4`},
		`{__name__=~"berth_cpu_(limit|quota).*",workload!="redis"}`:    {45, `berth_cpu_limit_cpus shop/web-0/app 2; berth_cpu_quota_cpus shop/web-0/app 4`},
		`rate(berth_cpu_periods_total{workload="shop/web-0/app"}[1m])`: {200, `shop/web-0/app 10`},
		`increase(berth_cpu_ancestor_throttled_periods_total{workload="shop/web-0/app"}[2m])`:          {200, `shop/web-0/app 120`},
		`round(rate(berth_cpu_throttled_periods_total[1m]) / rate(berth_cpu_periods_total[1m]), 0.01)`: {59, `redis 0.2; shop/web-0/app 0.2`},
		`avg_over_time(berth_burst_credit_cpu_seconds{workload="shop/web-0/app"}[11s])`:                {50, `shop/web-0/app 15`},
		`max_over_time(rate(berth_cpu_periods_total{workload="shop/web-0/app"}[1m])[2m:10s])`:          {200, `shop/web-0/app 10`},
		`berth_cpu_limit_cpus offset 4m`:                                 {299, `berth_cpu_limit_cpus redis 2; berth_cpu_limit_cpus shop/web-0/app 2`},
		`topk(1, berth_cpu_used_cpus) and on() berth_node_used_cpus > 2`: {200, `berth_cpu_used_cpus shop/web-0/app 0.5`},
		`berth_gone`:                     {100, ``},
		`berth_cpu_limit_cpus + (0 * 1)`: {-1, ``}, // before everything
	} {
		t.Run(text, func(t *testing.T) {
			if got := instant(t, h, want.second, text); got != want.result {
				t.Errorf("%q, want %q", got, want.result)
			}
		})
	}
}

// matrix is the answer to a range query.
type matrix struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
}

// TestRange checks that a range has a value for each step while a series exists, and none before and after.
func TestRange(t *testing.T) {
	h := New(kept(300), quiet()).Handler()
	code, body := ask(t, h, "/api/v1/query_range", "query", "berth_burst_credit_cpu_seconds", "start", at(0), "end", at(100), "step", "10")
	var got matrix
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK || len(got.Data.Result) != 2 {
		t.Fatal(code, body, err)
	}
	var redis []string
	for _, v := range got.Data.Result[0].Values {
		redis = append(redis, fmt.Sprint(int(v[0].(float64))-start, "=", v[1]))
	}
	if want := []string{"40=20", "50=10"}; !slices.Equal(redis, want) {
		t.Errorf("redis %v, want %v", redis, want)
	}
	if n := len(got.Data.Result[1].Values); n != 11 {
		t.Errorf("%d values of shop/web-0/app, want 11: %s", n, body)
	}
}

// day is a past of whole minutes of many workloads, like one on disk.
type day struct {
	minutes, workloads int
	block              func()
}

// Between implements Past: each minute is a separate History.
func (d *day) Between(from, until int64, do func(history.Stretch) error) error {
	if d.block != nil {
		d.block()
	}
	for m := range d.minutes {
		first := start + 60*m
		if int64(first+60)*1000 < from || int64(first)*1000 > until {
			continue
		}
		h := history.New(history.Options{})
		for second := range 60 {
			all := make([]capability.Moment, 0, d.workloads)
			for w := range d.workloads {
				all = append(all, moment(fmt.Sprintf("w%03d", w), second))
			}
			h.Add(time.Unix(int64(first+second), 0), all)
		}
		if err := h.Between(math.MinInt64, math.MaxInt64, do); err != nil {
			return err
		}
	}
	return nil
}

// TestCoarserSamples checks a range with more samples than a query may read. It gets coarser samples, whose rates and
// means are the same. A query for which they are too coarse is refused with the permitted values.
func TestCoarserSamples(t *testing.T) {
	s := New(kept(900), quiet())
	exact := s.Handler()
	s = New(kept(900), quiet())
	s.store.most = 200
	coarse := s.Handler()
	for _, text := range []string{
		`rate(berth_cpu_periods_total{workload="shop/web-0/app"}[5m])`,
		`avg_over_time(berth_cpu_used_cpus{workload="shop/web-0/app"}[5m])`,
		`max_over_time(berth_cpu_limit_cpus{workload="shop/web-0/app"}[5m])`,
	} {
		if want, got := instant(t, exact, 800, text), instant(t, coarse, 800, text); got != want {
			t.Errorf("%s: %s, of all samples %s", text, got, want)
		}
	}
	for name, h := range map[string]http.Handler{"coarse": coarse, "exact": exact} {
		code, body := ask(t, h, "/api/v1/query_range", "query", `count_over_time(berth_node_used_cpus[2m])`, "start", at(120), "end", at(899), "step", "120")
		var got matrix
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK || len(got.Data.Result) != 1 || len(got.Data.Result[0].Values) != 7 {
			t.Fatal(code, body, err)
		}
		for _, v := range got.Data.Result[0].Values[1:] {
			if n, _ := strconv.Atoi(fmt.Sprint(v[1])); name == "exact" && n != 120 || name == "coarse" && (n < fewestInWindow || n > 40) {
				t.Errorf("%s: %d samples in a window", name, n)
			}
		}
	}
	code, body := ask(t, coarse, "/api/v1/query_range", "query", `rate(berth_cpu_periods_total[8s])`, "start", at(0), "end", at(890), "step", "60")
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, "2 series over 14m50s have 894 samples even with one in 2s, allowed: 200 of 200") {
		t.Errorf("%d %s", code, body)
	}
	// The selectors of one query share its limit of samples.
	if code, body = ask(t, coarse, "/api/v1/query", "query", strings.ReplaceAll(`x + x + x`, "x", "count_over_time(berth_node_used_cpus[3m])"), "time", at(800)); code != http.StatusUnprocessableEntity || !strings.Contains(body, "of 200 left") {
		t.Errorf("%d %s", code, body)
	}
}

// TestQueriesOfDeath checks that extremely expensive queries end at once, or at their time limit, with the reason.
func TestQueriesOfDeath(t *testing.T) {
	h := New(kept(900), quiet()).Handler()
	for name, test := range map[string]struct {
		query, start, end, step string
		want                    string
	}{
		"points":                   {"berth_node_used_cpus", at(0), at(11_001), "1", "allowed: 11000"},
		"a step of a nanosecond":   {"berth_node_used_cpus", at(0), at(1), "0.000000001", `parameter \"step\"`},
		"a subquery of 10,000 d":   {"max_over_time(berth_node_used_cpus[10000d:1ms])", at(0), at(900), "15", "allowed: 10000000"},
		"one of series that ended": {"count_over_time(berth_cpu_used_cpus{workload=\"redis\"}[100d:10s])", at(0), at(0), "1s", "allowed: 11000"},
		"nested subqueries":        {"max_over_time(max_over_time(max_over_time(berth_node_used_cpus[100d:1h])[100d:1h])[100d:1h])", at(0), at(0), "1", "costs too much"},
		"windows of subqueries":    {"quantile_over_time(0.5, vector(1)[1d:10s])", at(0), at(86400), "10", "allowed: 10000000"},
		"all times there are":      {"max_over_time(berth_cpu_used_cpus[1m:1ms])", "-253402300799", "253402300799", "253402300", "allowed: 11000"},
		"labels that grow":         {strings.Repeat("label_replace(", 12) + "vector(1)" + strings.Repeat(`,"a","$1$1$1$1","a","(.*)")`, 12), at(0), at(0), "1", "allowed: 64"},
		"labels of labels":         {strings.Repeat("label_join(", 5) + "vector(1)" + strings.Repeat(`,"a","","a","a","a","a")`, 5), at(0), at(0), "1", "allowed: 64"},
		"text":                     {strings.Repeat("(", 4<<10) + "1" + strings.Repeat(")", 4<<10), at(0), at(1), "1", "1 to 8192 bytes"},
		"selectors":                {"count({__name__=~\"berth.+\"}" + strings.Repeat("or {__name__=~\"berth.+\"}", 300) + ")", at(0), at(900), "1", "allowed:"},
		"product":                  {"count(" + strings.TrimSuffix(strings.Repeat("{workload!=\"\"} * on() group_left() berth_node_used_cpus or ", 60), " or ") + ")", at(0), at(900), "1", ""},
		"a regular expression":     {`{__name__=~"((a*)*)*` + strings.Repeat("(b|c)*", 1000) + `"}`, at(0), at(900), "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := ask(t, h, "/api/v1/query_range", "query", test.query, "start", test.start, "end", test.end, "step", test.step)
			if test.want == "" { // it may also have an answer
				if code == http.StatusInternalServerError {
					t.Errorf("%d %.300s", code, body)
				}
				return
			}
			if code != http.StatusUnprocessableEntity && code != http.StatusBadRequest || !strings.Contains(body, test.want) {
				t.Errorf("%d %.300s, want %q", code, body, test.want)
			}
		})
	}
}

// TestSamplesAtATime checks that the engine has the same limit of samples as a query.
func TestSamplesAtATime(t *testing.T) {
	h := New(kept(300), quiet()).Handler()
	var parts []string
	for i := range 60 {
		parts = append(parts, fmt.Sprintf(`label_replace(vector(%d), "i", "%d", "", "")`, i, i))
	}
	code, body := ask(t, h, "/api/v1/query_range", "query", strings.Join(parts, " or "), "start", at(0), "end", at(10_999), "step", "1")
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, `"errorType":"execution"`) || !strings.Contains(body, "too many samples") {
		t.Errorf("%d %.300s", code, body)
	}
}

// TestTimeLimit checks that a query which takes too long ends, and so does a query whose client left.
func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(&day{minutes: 2, workloads: 1, block: func() { time.Sleep(time.Second) }}, quiet()).Handler()
		code, body := ask(t, h, "/api/v1/query", "query", "berth_cpu_limit_cpus", "time", at(30), "timeout", "500ms")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, `"errorType":"timeout"`) {
			t.Errorf("%d %s", code, body)
		}
		if code, body = ask(t, h, "/api/v1/query", "query", "berth_cpu_limit_cpus", "time", at(30), "timeout", "5s"); code != http.StatusOK {
			t.Errorf("in time: %d %s", code, body)
		}
		slow := New(&day{minutes: 1, workloads: 1, block: func() { time.Sleep(longestQuery + time.Second) }}, quiet()).Handler()
		if code, body = ask(t, slow, "/api/v1/query", "query", "berth_cpu_limit_cpus", "time", at(30), "timeout", "1h"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"errorType":"timeout"`) {
			t.Errorf("beyond all limits: %d %s", code, body)
		}
	})
}

// TestTurns checks that only so many queries are answered at a time, and that a client which waits too long is told to
// retry.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := New(&day{minutes: 1, workloads: 1, block: func() { <-free }}, quiet()).Handler()
		first := make(chan int, mostQueries)
		for range mostQueries {
			go func() {
				code, _ := ask(t, h, "/api/v1/labels")
				first <- code
			}()
		}
		synctest.Wait()
		began := time.Now()
		code, body := ask(t, h, "/api/v1/query", "query", "1")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, ErrBusy.Error()) || time.Since(began) != patience {
			t.Errorf("%d %s after %s", code, body, time.Since(began))
		}
		close(free)
		for range mostQueries {
			if code := <-first; code != http.StatusOK {
				t.Errorf("an answer that had its turn: %d", code)
			}
		}
		if code, body := ask(t, h, "/api/v1/query", "query", "1"); code != http.StatusOK {
			t.Errorf("after them: %d %s", code, body)
		}
	})
}

// TestBrowse checks the requests of a dashboard before its queries: names of labels, values, series, metrics.
func TestBrowse(t *testing.T) {
	h := New(kept(300), quiet()).Handler()
	var names []string
	for _, m := range metrics() {
		names = append(names, m.name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %v", names)
	}
	all, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path       string
		parameters []string
		want       string
	}{
		"labels":           {"/api/v1/labels", nil, `["__name__","workload"]`},
		"labels of node":   {"/api/v1/labels", []string{"match[]", "berth_node_used_cpus"}, `["__name__"]`},
		"metrics":          {"/api/v1/label/__name__/values", nil, string(all)},
		"workloads":        {"/api/v1/label/workload/values", nil, `["redis","shop/web-0/app"]`},
		"workloads of two": {"/api/v1/label/workload/values", []string{"match[]", `berth_cpu_limit_cpus{workload=~"r.*"}`, "match[]", "berth_node_used_cpus"}, `["redis"]`},
		"of another time":  {"/api/v1/label/workload/values", []string{"start", at(400), "end", at(500)}, `[]`},
		"no such label":    {"/api/v1/label/pod/values", nil, `[]`},
		"series":           {"/api/v1/series", []string{"match[]", `{workload="redis",__name__=~".*limit.*"}`}, `[{"__name__":"berth_cpu_limit_cpus","workload":"redis"}]`},
		"series of none":   {"/api/v1/series", []string{"match[]", `{workload="gone"}`}, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := ask(t, h, test.path, test.parameters...)
			if want := `{"status":"success","data":` + test.want + `}`; code != http.StatusOK || body != want {
				t.Errorf("%d %s", code, cmp.Diff(want, body))
			}
		})
	}
	code, body := ask(t, h, "/api/v1/metadata", "metric", "berth_cpu_periods_total")
	if want := `{"status":"success","data":{"berth_cpu_periods_total":[{"type":"counter","help":"CFS periods in which the group ran.","unit":""}]}}`; code != http.StatusOK || body != want {
		t.Errorf("%d %s", code, body)
	}
}

// TestBadRequests checks that an error about a parameter names the permitted values.
func TestBadRequests(t *testing.T) {
	h := New(kept(60), quiet()).Handler()
	for name, test := range map[string]struct {
		path       string
		parameters []string
		want       string
	}{
		"no query":          {"/api/v1/query", nil, `parameter \"query\": value \"\": allowed: an expression`},
		"no expression":     {"/api/v1/query", []string{"query", "sum("}, `parameter \"query\": `},
		"unknown":           {"/api/v1/query", []string{"query", "summe(berth_node_used_cpus)"}, "unknown function"},
		"time":              {"/api/v1/query", []string{"query", "1", "time", "noon"}, `parameter \"time\": value \"noon\": allowed: seconds since 1970`},
		"time that is none": {"/api/v1/query", []string{"query", "1", "time", "NaN"}, `parameter \"time\"`},
		"far time":          {"/api/v1/query", []string{"query", "1", "time", "1e300"}, `parameter \"time\"`},
		"timeout":           {"/api/v1/query", []string{"query", "1", "timeout", "-1"}, `parameter \"timeout\": value \"-1\": allowed:`},
		"no start":          {"/api/v1/query_range", []string{"query", "1", "end", "1", "step", "1"}, `parameter \"start\"`},
		"no step":           {"/api/v1/query_range", []string{"query", "1", "start", "1", "end", "1"}, `parameter \"step\"`},
		"end first":         {"/api/v1/query_range", []string{"query", "1", "start", "2", "end", "1", "step", "1"}, `parameter \"end\": value \"1\": allowed: a time from start on`},
		"matrix":            {"/api/v1/query_range", []string{"query", "berth_node_used_cpus[5m]", "start", "0", "end", "1", "step", "1"}, "range vector"},
		"no selector":       {"/api/v1/series", nil, `parameter \"match[]\"`},
		"selector":          {"/api/v1/series", []string{"match[]", "{"}, `parameter \"match[]\": value \"{\"`},
		"many selectors":    {"/api/v1/labels", slices.Repeat([]string{"match[]", "a"}, 33), "allowed: 32 times"},
		"label":             {"/api/v1/label/%ff/values", nil, "the name of a label"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := ask(t, h, test.path, test.parameters...)
			if code != http.StatusBadRequest || !strings.Contains(body, `"errorType":"bad_data"`) || !strings.Contains(body, test.want) {
				t.Errorf("%d %s, want %s", code, body, test.want)
			}
		})
	}
	for _, path := range []string{"/api/v1/admin/tsdb/delete_series", "/api/v1/write", "/metrics", "/../etc/passwd"} {
		if code, _ := ask(t, h, path); code != http.StatusNotFound && code != http.StatusMovedPermanently && code != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// damaged is a past that cannot be read.
type damaged struct{}

func (damaged) Between(int64, int64, func(history.Stretch) error) error {
	return errors.New("a bad sector")
}

// TestDamagedHistory checks that an unreadable history is reported as a separate error.
func TestDamagedHistory(t *testing.T) {
	h := New(damaged{}, quiet()).Handler()
	for _, path := range []string{"/api/v1/query", "/api/v1/labels", "/api/v1/label/workload/values"} {
		if code, body := ask(t, h, path, "query", "berth_cpu_limit_cpus"); code != http.StatusInternalServerError || !strings.Contains(body, "a bad sector") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestGuarded checks that other sites and names get no answer, as at the page's address.
func TestGuarded(t *testing.T) {
	h := window.Guard(nil, New(kept(60), quiet()).Handler())
	for name, test := range map[string]struct {
		method, host, site string
		code               int
	}{
		"this host":    {http.MethodGet, "127.0.0.1:9317", "", http.StatusOK},
		"rebound name": {http.MethodGet, "evil.example.com:9317", "", http.StatusMisdirectedRequest},
		"another site": {http.MethodGet, "127.0.0.1:9317", "cross-site", http.StatusForbidden},
		"a form":       {http.MethodPost, "127.0.0.1:9317", "", http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), test.method, "/api/v1/query?query=1", http.NoBody)
			if r.Host = test.host; test.site != "" {
				r.Header.Set("Sec-Fetch-Site", test.site)
			}
			answer := httptest.NewRecorder()
			if h.ServeHTTP(answer, r); answer.Code != test.code {
				t.Errorf("%d %s, want %d", answer.Code, answer.Body, test.code)
			}
		})
	}
}

// TestClient checks that Prometheus' own client understands the answers. It asks by POST, and by GET once that is
// refused.
func TestClient(t *testing.T) {
	server := httptest.NewServer(window.Guard(nil, New(kept(300), quiet()).Handler()))
	defer server.Close()
	client, err := api.NewClient(api.Config{Address: server.URL, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	a := v1.NewAPI(client)
	value, _, _, err := a.Query(t.Context(), "sum(berth_cpu_used_cpus)", time.Unix(start+50, 0))
	if want := fmt.Sprintf("{} => 1 @[%d]", start+50); err != nil || value.String() != want {
		t.Errorf("query: %v %v", value, err)
	}
	all, _, _, err := a.QueryRange(t.Context(), "berth_node_used_cpus", v1.Range{Start: time.Unix(start+1, 0), End: time.Unix(start+3, 0), Step: time.Second})
	if want := fmt.Sprintf("berth_node_used_cpus =>\n3 @[%d]\n3 @[%d]\n3 @[%d]", start+1, start+2, start+3); err != nil || all.String() != want {
		t.Errorf("range: %v %v", all, err)
	}
	names, _, _, err := a.LabelValues(t.Context(), "workload", nil, time.Unix(start, 0), time.Unix(start+300, 0))
	if err != nil || fmt.Sprint(names) != "[redis shop/web-0/app]" {
		t.Errorf("values: %v %v", names, err)
	}
	series, _, _, err := a.Series(t.Context(), []string{"berth_node_used_cpus"}, time.Unix(start, 0), time.Unix(start+300, 0))
	if err != nil || len(series) != 1 || series[0]["__name__"] != "berth_node_used_cpus" {
		t.Errorf("series: %v %v", series, err)
	}
	about, err := a.Metadata(t.Context(), "berth_cpu_limit_cpus", "")
	if err != nil || about["berth_cpu_limit_cpus"][0].Type != v1.MetricTypeGauge {
		t.Errorf("metadata: %v %v", about, err)
	}
	var refused *v1.Error
	if _, _, _, err = a.Query(t.Context(), "max_over_time(vector(1)[10000d:1ms])", time.Unix(start, 0)); !errors.As(err, &refused) || refused.Type != v1.ErrExec {
		t.Errorf("a query that costs too much: %v", err)
	}
}

// BenchmarkDay measures the rate of one counter of a hundred workloads over a day on disk, in the steps of a dashboard.
func BenchmarkDay(b *testing.B) {
	const seconds, workloads = 86_400, 100
	past := history.New(history.Options{Dir: b.TempDir(), Limits: history.Limits{Retention: 48 * time.Hour, Bytes: 1 << 30}, Log: quiet()})
	ended, end := context.WithCancel(b.Context())
	end()
	if err := history.NewRecorder(past).Run(ended); err != nil { // it opens the directory
		b.Fatal(err)
	}
	all := make([]capability.Moment, workloads)
	for second := range seconds {
		for i := range all {
			all[i] = moment(fmt.Sprintf("w%03d", i), second)
			all[i].Used += unit.CPUTime(second*second*(i+1)) % 1e9
		}
		past.Add(time.Unix(int64(start+second), 0), all)
	}
	h := New(past, quiet()).Handler()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/query_range?query=rate(berth_cpu_throttled_periods_total[5m])&step=90&start="+at(0)+"&end="+at(seconds), http.NoBody)
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code != http.StatusOK {
			b.Fatal(answer.Body)
		}
	}
}
