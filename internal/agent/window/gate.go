package window

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// The paths for which a token is reviewed. No resource has these paths.
const (
	viewRight    = "/berth/view"
	metricsRight = "/metrics"
)

const (
	// freshFor is how long an answer about a token is valid. staleFor is how long an allowing answer is valid while no
	// newer answer is available. The gate retries every retryEvery.
	freshFor   = time.Minute
	staleFor   = time.Hour
	retryEvery = 10 * time.Second
	// maxToken bounds the size of a token, which normally has a few KiB.
	maxToken = 64 << 10
	// reviewLimit bounds a review, and the wait for its turn. mostReviews is the number of concurrent reviews of tokens
	// that were never allowed. mostTokens is the number of remembered answers.
	reviewLimit = 5 * time.Second
	mostReviews = 8
	mostTokens  = 1000
)

// errBusy means that the maximum number of tokens is under review. It tells nothing about the token or the reviewer, so
// nothing is allowed because of it.
var errBusy = fmt.Errorf("%d tokens are under review", mostReviews)

// Verdict is the result of a review of a bearer token and a path.
type Verdict struct {
	// User is the owner of the token, empty if it has none.
	User string
	// Allowed is true if the user may get the path.
	Allowed bool
	// Until is the expiry that the token states, zero for never.
	Until time.Time
}

// Review reviews a token for a path that is not a resource; an error means that it cannot. Several goroutines call it
// at once.
type Review func(ctx context.Context, token, path string) (Verdict, error)

// gate admits requests whose token has a right. It remembers answers by the digest of the token.
type gate struct {
	review Review
	log    *slog.Logger
	slots  chan struct{}
	// flights has one review of a permit at a time, for all concurrent requests.
	flights singleflight.Group

	mu    sync.Mutex
	known map[permit]answer
	away  bool
}

// permit is a token, by its digest, for a path.
type permit struct {
	token [sha256.Size]byte
	path  string
}

// answer is a Verdict with the time when it was given, and until when no newer answer is requested.
type answer struct {
	Verdict
	at, fresh time.Time
}

// newGate returns a gate that knows no token, or nil without a Review.
func newGate(review Review, log *slog.Logger) *gate {
	if review == nil {
		return nil
	}
	return &gate{review: review, log: log, slots: make(chan struct{}, mostReviews), known: map[permit]answer{}}
}

// guard returns next for requests with a right. It ends a running answer once the token loses the right.
func (g *gate) guard(right string, next http.Handler) http.Handler {
	if g == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := g.ask(r.Context(), bearer(r), right)
		switch {
		case err != nil:
			w.Header().Set("Retry-After", "10")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case v.User == "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
			http.Error(w, "the agent of a cluster wants a bearer token of the cluster, with the role berth-viewer; sudo berth top on the node needs none, kubectl berth web NODE brings one", http.StatusUnauthorized)
		case !v.Allowed:
			http.Error(w, fmt.Sprintf("%s may not get %s; the role berth-viewer may", v.User, right), http.StatusForbidden)
		default:
			g.serve(w, r, right, next)
		}
	})
}

// bearer returns the token of a request, empty for none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// serve lets next answer for as long as the token is allowed.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, right string, next http.Handler) {
	ctx, end := context.WithCancel(r.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(freshFor):
			}
			if v, err := g.ask(ctx, bearer(r), right); err != nil || !v.Allowed {
				end()
			}
		}
	})
	next.ServeHTTP(w, r.WithContext(ctx))
	end()
	watch.Wait()
}

// ask returns the verdict on a token. An error means that there is none. A review continues after ctx ends: a client
// that closes its requests cannot influence the verdict on its token.
func (g *gate) ask(ctx context.Context, token, path string) (Verdict, error) {
	if token == "" || len(token) > maxToken {
		return Verdict{}, nil
	}
	p := permit{token: sha256.Sum256([]byte(token)), path: path}
	v, err, _ := g.flights.Do(string(p.token[:])+path, func() (any, error) {
		return g.renew(context.WithoutCancel(ctx), p, token)
	})
	said, _ := v.(Verdict)
	return said, err //nolint:wrapcheck // It is what renew returned.
}

// renew returns the verdict on a permit, and reviews it if the verdict is no longer fresh.
func (g *gate) renew(ctx context.Context, p permit, token string) (Verdict, error) {
	before := g.recall(p)
	if time.Now().Before(before.fresh) {
		return before.Verdict, nil
	}
	if !before.Allowed {
		// Anyone can make up tokens, so unknown tokens share a few slots. Allowed tokens need no slot and do not wait.
		if !g.enter() {
			return Verdict{}, unknown(errBusy)
		}
		defer func() { <-g.slots }()
	}
	now := time.Now()
	limited, cancel := context.WithTimeout(ctx, reviewLimit)
	defer cancel()
	v, err := g.review(limited, token, p.path)
	g.report(err)
	switch {
	case err == nil:
		before = answer{Verdict: v, at: now, fresh: now.Add(freshFor)}
	case before.Allowed && now.Sub(before.at) < staleFor:
		before.fresh = now.Add(retryEvery)
	default:
		return Verdict{}, unknown(err)
	}
	g.remember(p, before)
	return before.Verdict, nil
}

// enter waits for a slot, and reports whether it got one in time.
func (g *gate) enter() bool {
	late := time.NewTimer(reviewLimit)
	defer late.Stop()
	select {
	case g.slots <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// unknown returns the error that a token could not be reviewed.
func unknown(why error) error { return fmt.Errorf("whose the token is cannot be asked now: %w", why) }

// recall returns the remembered answer for a token that has not expired.
func (g *gate) recall(p permit) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.known[p]
	if !a.Until.IsZero() && !time.Now().Before(a.Until) {
		return answer{}
	}
	return a
}

// remember stores an answer. If there are too many, it drops refused tokens first, so that nobody who tries tokens can
// displace an allowed one.
func (g *gate) remember(p permit, a answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.known[p]; !there && len(g.known) >= mostTokens {
		oldest, at := p, a.at
		for other, b := range g.known {
			switch {
			case !b.Allowed || a.at.Sub(b.at) >= staleFor:
				delete(g.known, other)
			case b.at.Before(at):
				oldest, at = other, b.at
			}
		}
		if len(g.known) >= mostTokens {
			delete(g.known, oldest)
		}
	}
	g.known[p] = a
}

// report logs once that tokens cannot be reviewed, and once that they can again.
func (g *gate) report(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil && !g.away:
		g.log.Warn("tokens cannot be reviewed: who was allowed in the last hour still is", "error", err)
	case err == nil && g.away:
		g.log.Info("tokens can be reviewed again")
	}
	g.away = err != nil
}
