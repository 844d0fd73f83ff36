package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	// mostQueries is how many requests are answered at a time; another waits for at most patience.
	mostQueries = 2
	patience    = 5 * time.Second
	// longestQuery bounds a query, longestSend the sending of its answer.
	longestQuery = 10 * time.Second
	longestSend  = 10 * time.Second
)

// Server answers queries. It is safe for concurrent use.
type Server struct {
	engine *promql.Engine
	store  store
	log    *slog.Logger
	// slots has an element for each request in progress.
	slots chan struct{}
}

// New returns a Server over a Past.
func New(past Past, log *slog.Logger) *Server {
	return &Server{
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: mostSamples, Timeout: longestQuery, LookbackDelta: lookback,
			NoStepSubqueryIntervalFn: func(int64) int64 { return usualStep.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		}),
		store: store{past: past, most: mostSamples}, log: log, slots: make(chan struct{}, mostQueries),
	}
}

// Handler returns a handler for the read-only part of Prometheus' HTTP API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]func(context.Context, *http.Request, form) (reply, error){
		"/api/v1/query":               s.instant,
		"/api/v1/query_range":         s.ranged,
		"/api/v1/series":              s.series,
		"/api/v1/labels":              s.labels,
		"/api/v1/label/{name}/values": s.values,
		"/api/v1/metadata":            s.metadata,
	} {
		mux.HandleFunc("GET "+path, s.answered(answer))
	}
	return mux
}

// reply is an answer in Prometheus' format.
type reply struct {
	Status    string   `json:"status"`
	Data      any      `json:"data,omitempty"`
	ErrorType string   `json:"errorType,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Infos     []string `json:"infos,omitempty"`
}

// answered wraps answer in a slot. It releases the slot after the answer is sent: only mostQueries answers are in
// memory.
func (s *Server) answered(answer func(context.Context, *http.Request, form) (reply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.enter(r.Context()); err != nil {
			w.Header().Set("Retry-After", "5")
			s.send(w, reply{}, err)
			return
		}
		defer func() { <-s.slots }()
		f, err := readForm(r.URL.RawQuery)
		if err != nil {
			s.send(w, reply{}, err)
			return
		}
		limit, err := f.duration("timeout", longestQuery)
		if err != nil {
			s.send(w, reply{}, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), min(limit, longestQuery))
		defer cancel()
		said, err := answer(ctx, r, f)
		s.send(w, said, err)
	}
}

// enter waits for a slot.
func (s *Server) enter(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-late.C:
		return ErrBusy
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

// send sends an answer or an error.
func (s *Server) send(w http.ResponseWriter, said reply, err error) {
	code := http.StatusOK
	said.Status = "success"
	if err != nil {
		said = reply{Status: "error", Error: err.Error()}
		code, said.ErrorType = classOf(err)
	}
	text, err := json.Marshal(said)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // a later request would inherit this one's deadline
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longestSend)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.log.Debug("query: an answer without a deadline", "error", err)
	}
	w.WriteHeader(code)
	if _, err := w.Write(text); err != nil {
		s.log.Debug("query: an answer was not sent", "error", err) // the client went away
	}
}

// classOf returns the HTTP status of an error, and Prometheus' word for it.
func classOf(err error) (code int, class string) {
	var late promql.ErrQueryTimeout
	var ended promql.ErrQueryCanceled
	switch {
	case errors.Is(err, ErrRequest):
		return http.StatusBadRequest, "bad_data"
	case errors.Is(err, ErrBusy):
		return http.StatusServiceUnavailable, "unavailable"
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "timeout"
	case errors.As(err, &ended), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "canceled"
	case errors.Is(err, ErrHistory):
		return http.StatusInternalServerError, "internal"
	case errors.Is(err, ErrCost), errors.Is(err, ErrQuery):
		return http.StatusUnprocessableEntity, "execution"
	}
	return http.StatusInternalServerError, "internal"
}

// instant evaluates a query at one time.
func (s *Server) instant(ctx context.Context, _ *http.Request, f form) (reply, error) {
	text, err := f.query()
	if err != nil {
		return reply{}, err
	}
	at, err := f.time("time", time.Now())
	if err != nil {
		return reply{}, err
	}
	q, err := s.engine.NewInstantQuery(ctx, s.store, nil, text, at)
	if err != nil {
		return reply{}, fmt.Errorf("%w: parameter \"query\": %w", ErrRequest, err)
	}
	return run(ctx, q, moments{})
}

// ranged evaluates a query at times in equal steps.
func (s *Server) ranged(ctx context.Context, _ *http.Request, f form) (reply, error) {
	text, err := f.query()
	if err != nil {
		return reply{}, err
	}
	for _, name := range []string{"start", "end", "step"} {
		if !f.Has(name) {
			return reply{}, f.refused(name, "a value")
		}
	}
	from, until, err := f.span(time.Time{}, time.Time{})
	if err != nil {
		return reply{}, err
	}
	step, err := f.duration("step", usualStep)
	if err != nil {
		return reply{}, err
	}
	at := moments{span: until.Sub(from), step: step}
	q, err := s.engine.NewRangeQuery(ctx, s.store, nil, text, from, until, step)
	if err != nil {
		return reply{}, fmt.Errorf("%w: parameter \"query\": %w", ErrRequest, err)
	}
	return run(ctx, q, at)
}

// run evaluates a query, unless it costs too much.
func run(ctx context.Context, q promql.Query, at moments) (reply, error) {
	defer q.Close()
	if statement, is := q.Statement().(*parser.EvalStmt); is {
		if err := bound(statement.Expr, at); err != nil {
			return reply{}, err
		}
	}
	result := q.Exec(ctx)
	if result.Err != nil {
		return reply{}, fmt.Errorf("%w: %w", ErrQuery, result.Err)
	}
	warnings, infos := result.Warnings.AsStrings(q.String(), 10, 10)
	// Close releases the result, so it is encoded before.
	text, err := json.Marshal(notNil(result.Value))
	if err != nil {
		return reply{}, fmt.Errorf("encode: %w", err)
	}
	return reply{
		Data:     map[string]any{"resultType": result.Value.Type(), "result": json.RawMessage(text)},
		Warnings: warnings, Infos: infos,
	}, nil
}

// notNil returns a value whose JSON is never null.
func notNil(v parser.Value) parser.Value {
	switch v := v.(type) {
	case promql.Matrix:
		if v == nil {
			return promql.Matrix{}
		}
	case promql.Vector:
		if v == nil {
			return promql.Vector{}
		}
	}
	return v
}

// each calls do for each selector, or once without selectors, with the querier from start to end.
func (s *Server) each(f form, do func(q *querier, matchers []*labels.Matcher) error) error {
	from, until, err := f.span(time.UnixMilli(0), time.Now())
	if err != nil {
		return err
	}
	selectors, err := f.selectors()
	if err != nil {
		return err
	}
	if len(selectors) == 0 {
		selectors = [][]*labels.Matcher{nil}
	}
	for _, matchers := range selectors {
		if err := do(s.store.between(from.UnixMilli(), until.UnixMilli()), matchers); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the distinct texts of all selectors as an answer.
func (s *Server) listed(f form, list func(q *querier, matchers []*labels.Matcher) ([]string, annotations.Annotations, error)) (reply, error) {
	names := map[string]bool{}
	err := s.each(f, func(q *querier, matchers []*labels.Matcher) error {
		some, _, err := list(q, matchers)
		for _, name := range some {
			names[name] = true
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return reply{Data: sorted(names)}, nil
}

// labels lists label names.
func (s *Server) labels(ctx context.Context, _ *http.Request, f form) (reply, error) {
	return s.listed(f, func(q *querier, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(ctx, nil, matchers...)
	})
}

func (s *Server) values(ctx context.Context, r *http.Request, f form) (reply, error) {
	name := r.PathValue("name")
	if !model.UTF8Validation.IsValidLabelName(name) {
		return reply{}, fmt.Errorf("%w: label %q: allowed: the name of a label", ErrRequest, name)
	}
	return s.listed(f, func(q *querier, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(ctx, name, nil, matchers...)
	})
}

// series lists series by their labels.
func (s *Server) series(ctx context.Context, _ *http.Request, f form) (reply, error) {
	if !f.Has("match[]") {
		return reply{}, f.refused("match[]", "a selector, once or more")
	}
	all, seen := []labels.Labels{}, map[string]bool{}
	err := s.each(f, func(q *querier, matchers []*labels.Matcher) error {
		some, err := q.find(ctx, q.from, q.until, matchers)
		for _, c := range some.curves {
			if text := c.labels.String(); !seen[text] {
				all, seen[text] = append(all, c.labels), true
			}
		}
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return reply{Data: all}, nil
}

// metadata lists the metrics with their types and help.
func (s *Server) metadata(_ context.Context, _ *http.Request, f form) (reply, error) {
	type about struct {
		Type string `json:"type"`
		Help string `json:"help"`
		Unit string `json:"unit"`
	}
	all := map[string][]about{}
	for _, m := range metrics() {
		if !f.Has("metric") || f.Get("metric") == m.name {
			all[m.name] = []about{{Type: m.typ, Help: m.help}}
		}
	}
	return reply{Data: all}, nil
}
