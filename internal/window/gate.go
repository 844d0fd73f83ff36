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

// The paths that no resource has, for which a token is reviewed.
const (
	viewRight    = "/berth/view"
	metricsRight = "/metrics"
)

const (
	// freshFor is how long an answer about a token counts, and staleFor how long one counts
	// that allowed it while no newer one is to be had, which is asked for every retryEvery.
	freshFor   = time.Minute
	staleFor   = time.Hour
	retryEvery = 10 * time.Second
	// maxToken bounds a token, which has a few KiB.
	maxToken = 64 << 10
	// reviewLimit is how long a review may take, and how long one waits for its turn;
	// mostReviews is how many there are at a time of tokens that nothing has allowed yet, and
	// mostTokens how many answers are kept.
	reviewLimit = 5 * time.Second
	mostReviews = 8
	mostTokens  = 1000
)

// errBusy says that as many tokens are under review as may be. It says nothing of the token or
// of whom the gate asks, so nothing is allowed because of it.
var errBusy = fmt.Errorf("%d tokens are under review", mostReviews)

// Verdict is what is known of a bearer token and a path.
type Verdict struct {
	// User is whose the token is, empty where it is no user's.
	User string
	// Allowed says whether the user may get the path.
	Allowed bool
	// Until is when the token ends by its own word, zero for never.
	Until time.Time
}

// Review finds out about a token and a path that is no resource's; an error says that it
// cannot. It is called by several goroutines at once.
type Review func(ctx context.Context, token, path string) (Verdict, error)

// gate lets those through who have a token with a right. It keeps what it learned by the
// digest of the token.
type gate struct {
	review Review
	log    *slog.Logger
	slots  chan struct{}
	// flights has one review of a permit at a time, for all who ask meanwhile.
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

// answer is a Verdict with when it was given, and until when no newer one is asked for.
type answer struct {
	Verdict
	at, fresh time.Time
}

// newGate returns a gate for which no token is known; without a Review there is none.
func newGate(review Review, log *slog.Logger) *gate {
	if review == nil {
		return nil
	}
	return &gate{review: review, log: log, slots: make(chan struct{}, mostReviews), known: map[permit]answer{}}
}

// guard is what next answers, for those who have a right. It ends an answer that lasts once
// they have it no more.
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

// bearer is the token of a request, empty for none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// serve has next answer for as long as the token is allowed.
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

// ask returns what is known of a token. An error says that nothing is. A review goes on
// where ctx ends: a client that closes its requests does not decide what is known of its token.
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

// renew returns what is known of a permit, and asks about it where that is no longer fresh.
func (g *gate) renew(ctx context.Context, p permit, token string) (Verdict, error) {
	before := g.recall(p)
	if time.Now().Before(before.fresh) {
		return before.Verdict, nil
	}
	if !before.Allowed {
		// Anyone can make up tokens, so they share a few slots. Those that were allowed need none
		// and wait for no others.
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

// enter takes a slot, in its turn. It says whether there was one in time.
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

// unknown is why nothing is known of a token.
func unknown(why error) error { return fmt.Errorf("whose the token is cannot be asked now: %w", why) }

// recall returns what is remembered of a token that has not ended.
func (g *gate) recall(p permit) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.known[p]
	if !a.Until.IsZero() && !time.Now().Before(a.Until) {
		return answer{}
	}
	return a
}

// remember keeps an answer, in the place of those that count for the least where there are
// many: what refused a token goes first, so that no one who tries tokens drops one that counts.
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

// report logs that tokens cannot be reviewed, once, and that they can again.
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
