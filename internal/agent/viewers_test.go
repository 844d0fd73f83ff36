package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
	"github.com/berth-project/berth/internal/capability/tune/evidence"
	"github.com/berth-project/berth/internal/node/nri"
)

const (
	viewersOf  = "BERTH_TEST_VIEWERS_OF" // the number of viewers of the child, a space, and the address of their stream
	viewersRaw = "BERTH_VIEWERS_RAW"     // a file for the raw data
	viewers    = 100
)

// answered is one turn: the runtime's wait for each answer with this many viewers.
type answered struct {
	Round   int       `json:"round"`
	Viewers int       `json:"viewers"`
	Micros  []float64 `json:"us"`
}

// p99 returns the 99th percentile of the answers in the turns with this many viewers.
func p99(turns []answered, viewers int) float64 {
	var all []float64
	for _, t := range turns {
		if t.Viewers == viewers {
			all = append(all, t.Micros...)
		}
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// BenchmarkViewers measures how long the runtime waits for answers of a node with 250 pods, with no viewers and with
// 100. The viewers follow the stream from a process of their own. Turns come in pairs, and each spreads its answers
// over three seconds. Times are wall-clock, so only a quiet machine gives a verdict. -benchtime sets the number of
// pairs; a few bound no interval. BERTH_VIEWERS_RAW names a file for one line per turn.
func BenchmarkViewers(b *testing.B) {
	const answers, apart = 300, 10 * time.Millisecond
	n := newFullNode(b)
	n.begins(b, costs{})
	v := &viewer{agent: n.controls}
	server := httptest.NewServer(web.NewNode(v.look, slog.New(slog.DiscardHandler)).Handler())
	defer server.Close()
	kinds := []nri.Kind{nri.Stop, nri.Remove, nri.Create, nri.PostCreate, nri.Start, nri.PostStart, nri.Update, nri.PostUpdate}
	_, e := podOf("p7", false)
	turn := func(round, viewers int) answered {
		if viewers > 0 {
			defer follow(b, server.URL, viewers)()
		}
		t := answered{Round: round, Viewers: viewers}
		for i := range answers {
			time.Sleep(apart)
			e.Kind = kinds[i%len(kinds)]
			began := time.Now()
			n.answers(e)
			t.Micros = append(t.Micros, float64(time.Since(began).Nanoseconds())/1000)
		}
		return t
	}
	var turns []answered
	for round, arms := 0, []int{0, viewers}; b.Loop(); round++ {
		for _, arm := range arms {
			turns = append(turns, turn(round, arm))
		}
		slices.Reverse(arms)
	}
	compareViewers(b, turns)
	if err := n.controls.stop(); err != nil {
		b.Error(err)
	}
	n.closeJournal()
}

// compareViewers reports both arms, and their ratio with its interval, whose bounds are 0 with too few pairs.
func compareViewers(b *testing.B, turns []answered) {
	b.Helper()
	var raw bytes.Buffer
	rule := evidence.Standard()
	rule.Most = max(rule.Most, len(turns))
	trial, err := evidence.New(rule)
	for i, t := range turns {
		err = errors.Join(err, json.NewEncoder(&raw).Encode(t))
		if i%2 == 1 {
			pair := turns[i-1 : i+1]
			err = errors.Join(err, trial.Add(evidence.Pair{With: p99(pair, viewers), Without: p99(pair, 0)}))
		}
	}
	if file := os.Getenv(viewersRaw); file != "" {
		err = errors.Join(err, os.WriteFile(file, raw.Bytes(), 0o600))
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(p99(turns, 0), "µs-p99/0")
	b.ReportMetric(p99(turns, viewers), "µs-p99/100")
	r := trial.Result()
	b.ReportMetric(r.Ratio, "p99-ratio")
	b.ReportMetric(r.Low, "p99-ratio-low")
	b.ReportMetric(r.High, "p99-ratio-high")
}

// follow starts a child that follows the stream for this many viewers until leave is called. Each viewer has its first
// view when follow returns.
func follow(b *testing.B, address string, number int) (leave func()) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%d %s", viewersOf, number, address)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	out, failed := cmd.StdoutPipe()
	if err = errors.Join(err, failed); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	leave = func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Error(err)
		}
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		leave()
		b.Fatalf("the viewers have no view: %v", err)
	}
	return leave
}

// look runs the child, whose task is a number of viewers and an address. It prints a line once each viewer has a view,
// and ends with its input.
func look(task string) error {
	count, address, _ := strings.Cut(task, " ")
	number, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	stream, err := url.Parse(address + window.PatchesPath)
	if err != nil {
		return err
	}
	transport, group := &http.Transport{}, sync.WaitGroup{}
	defer group.Wait()
	for range number {
		answer, err := transport.RoundTrip(&http.Request{Method: http.MethodGet, URL: stream, Header: http.Header{}})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		lines := bufio.NewReaderSize(answer.Body, 1<<16)
		if _, err := lines.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		group.Go(func() { _, _ = io.Copy(io.Discard, lines) }) // until the viewer leaves
	}
	if _, err := os.Stdout.WriteString("each has a view\n"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
