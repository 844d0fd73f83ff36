package window

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reviewer is an API server that knows the users and rights that a test sets.
type reviewer struct {
	users   map[string]string // by token
	allowed map[string]bool   // user and path
	until   time.Time
	err     error
	asked   int
}

func (r *reviewer) review(_ context.Context, token, path string) (Verdict, error) {
	if r.asked++; r.err != nil {
		return Verdict{}, r.err
	}
	user := r.users[token]
	return Verdict{User: user, Allowed: r.allowed[user+" "+path], Until: r.until}, nil
}

// known returns a reviewer with a viewer, a Prometheus and a pod without a role.
func known() *reviewer {
	return &reviewer{
		users:   map[string]string{"v": "viewer", "p": "prometheus", "x": "pod"},
		allowed: map[string]bool{"viewer /berth/view": true, "viewer /metrics": true, "prometheus /metrics": true},
	}
}

// show requests a path from a handler with an Authorization header.
func show(t *testing.T, h http.Handler, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "localhost"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	h.ServeHTTP(w, r)
	return w
}

// historyPath is the path of the last minutes of a workload.
const historyPath = "/api/v1/history?workload=shop/web-0/app"

// address returns the handlers of an agent: open for its address, where clients are reviewed, and own for its socket.
func address(review Review, views http.Handler) (open, own http.Handler) {
	a := (&agent{review: review, view: "page"}).answers()
	if views != nil {
		a.Views = views
	}
	return (&Window{opts: Options{Log: quiet()}}).handlers(a)
}

// TestTokens checks that only health is open at the address of a cluster's agent. Page, view and metrics require a
// token with the right. The socket requires none.
func TestTokens(t *testing.T) {
	for name, test := range map[string]struct {
		path, authorization string
		code                int
		says                string
	}{
		"health":              {healthPath, "", http.StatusOK, "ok"},
		"ready":               {"/readyz", "", http.StatusOK, "ok"},
		"no token":            {"/", "", http.StatusUnauthorized, "bearer token"},
		"metrics, no token":   {"/metrics", "", http.StatusUnauthorized, "bearer token"},
		"stream, no token":    {StreamPath, "", http.StatusUnauthorized, "bearer token"},
		"history, no token":   {historyPath, "", http.StatusUnauthorized, "bearer token"},
		"history, no role":    {historyPath, "Bearer p", http.StatusForbidden, "prometheus may not get /berth/view"},
		"history":             {historyPath, "Bearer v", http.StatusOK, "page of /api/v1/history"},
		"password":            {"/", "Basic dTpw", http.StatusUnauthorized, "bearer token"},
		"empty token":         {"/", "Bearer ", http.StatusUnauthorized, "bearer token"},
		"too long":            {"/", "Bearer " + strings.Repeat("v", maxToken+1), http.StatusUnauthorized, "bearer token"},
		"unknown or expired":  {"/", "Bearer gone", http.StatusUnauthorized, "bearer token"},
		"no role":             {ViewPath, "Bearer x", http.StatusForbidden, "pod may not get /berth/view"},
		"no role, metrics":    {"/metrics", "Bearer x", http.StatusForbidden, "pod may not get /metrics"},
		"metrics only":        {"/", "Bearer p", http.StatusForbidden, "prometheus may not get /berth/view"},
		"metrics, prometheus": {"/metrics", "Bearer p", http.StatusOK, ""},
		"page":                {"/", "Bearer v", http.StatusOK, "page of /"},
		"view, small letters": {ViewPath, "bearer v", http.StatusOK, "page of " + ViewPath},
	} {
		t.Run(name, func(t *testing.T) {
			api := known()
			api.users[strings.Repeat("v", maxToken+1)] = "viewer"
			open, own := address(api.review, nil)
			w := show(t, open, test.path, test.authorization)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("%d %s, want %d %q", w.Code, w.Body, test.code, test.says)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (w.Code == http.StatusUnauthorized) {
				t.Errorf("challenge %q", challenge)
			}
			if w := show(t, own, test.path, ""); w.Code != http.StatusOK {
				t.Errorf("at the socket: %d", w.Code)
			}
		})
	}
}

// TestVerdictsAreKept checks that an answer is valid for a minute. While the API server is down, permitted users keep
// access for an hour, but not longer than their token is valid. Nobody else gets access.
func TestVerdictsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := known()
		h, _ := address(api.review, nil)
		expect := func(when, token string, code, asked int) {
			t.Helper()
			if w := show(t, h, "/", "Bearer "+token); w.Code != code {
				t.Errorf("%s: %s: %d %s, want %d", when, token, w.Code, w.Body, code)
			}
			if api.asked != asked {
				t.Errorf("%s: %s: asked %d times, want %d", when, token, api.asked, asked)
			}
		}
		expect("first", "v", http.StatusOK, 1)
		expect("first", "x", http.StatusForbidden, 2)
		time.Sleep(freshFor - time.Second)
		api.users["v"], api.users["x"] = "", "viewer"
		expect("still fresh", "v", http.StatusOK, 2)
		expect("still fresh", "x", http.StatusForbidden, 2)
		time.Sleep(time.Second)
		expect("revoked", "v", http.StatusUnauthorized, 3)
		expect("granted", "x", http.StatusOK, 4)
		time.Sleep(freshFor)
		api.err = errWrong
		expect("away", "x", http.StatusOK, 5)
		expect("away, asked a moment ago", "x", http.StatusOK, 5)
		expect("away, and was not allowed", "v", http.StatusServiceUnavailable, 6)
		expect("away, and is not known", "p", http.StatusServiceUnavailable, 7)
		time.Sleep(staleFor - freshFor - time.Second)
		expect("away for nearly an hour", "x", http.StatusOK, 8)
		time.Sleep(retryEvery)
		expect("away for an hour", "x", http.StatusServiceUnavailable, 9)
		api.err, api.until = nil, time.Now().Add(30*time.Second)
		expect("back", "x", http.StatusOK, 10)
		time.Sleep(30 * time.Second)
		api.err = errWrong
		expect("the token ended", "x", http.StatusServiceUnavailable, 11)
	})
}

// TestStreamEndsWithToken checks that a stream ends once its token is no longer permitted.
func TestStreamEndsWithToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, revoked := known(), atomic.Bool{}
		review := func(ctx context.Context, token, path string) (Verdict, error) {
			if revoked.Load() {
				return Verdict{}, nil
			}
			return api.review(ctx, token, path)
		}
		h, _ := address(review, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		began, ended := time.Now(), make(chan time.Duration, 1)
		go func() {
			show(t, h, StreamPath, "Bearer v")
			ended <- time.Since(began)
		}()
		time.Sleep(5*freshFor + time.Second)
		select {
		case after := <-ended:
			t.Fatalf("it ended after %s", after)
		default:
		}
		revoked.Store(true)
		if after := <-ended; after > 7*freshFor {
			t.Errorf("it ended after %s", after)
		}
	})
}

// TestManyTokens checks that a client which tries many tokens evicts no valid answer, and that only a few of its tokens
// are reviewed at a time.
func TestManyTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := known()
		g := newGate(api.review, quiet())
		h := g.guard(viewRight, http.NotFoundHandler())
		show(t, h, "/", "Bearer v")
		for i := range 3 * mostTokens {
			show(t, h, "/", fmt.Sprint("Bearer guess-", i))
		}
		if len(g.known) > mostTokens {
			t.Errorf("%d answers are kept", len(g.known))
		}
		asked := api.asked
		if show(t, h, "/", "Bearer v"); api.asked != asked {
			t.Error("an allowed token was dropped")
		}

		hangs := newGate(func(context.Context, string, string) (Verdict, error) {
			time.Sleep(2 * reviewLimit)
			return Verdict{}, errWrong
		}, quiet()).guard(viewRight, http.NotFoundHandler())
		codes := tries(t, hangs, mostReviews)
		began := time.Now()
		if w := show(t, hangs, "/", "Bearer late"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), errBusy.Error()) || time.Since(began) != reviewLimit {
			t.Errorf("after %s: %d %s", time.Since(began), w.Code, w.Body)
		}
		for range mostReviews {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("code %d", code)
			}
		}
	})
}

// tries sends requests concurrently, each with a different token, and returns their answers once all are in progress.
func tries(t *testing.T, h http.Handler, count int) <-chan int {
	t.Helper()
	codes := make(chan int, count)
	for i := range count {
		go func() { codes <- show(t, h, "/", fmt.Sprint("Bearer try-", i)).Code }()
	}
	synctest.Wait()
	return codes
}

// TestClosedRequestsAreReviewed checks that a review completes even if its client gives up. A client that closes
// requests must not keep access with a revoked token, and must not end another client's review.
func TestClosedRequestsAreReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := known()
		g := newGate(func(ctx context.Context, token, path string) (Verdict, error) {
			select {
			case <-ctx.Done():
				return Verdict{}, ctx.Err()
			case <-time.After(20 * time.Millisecond):
				return api.review(ctx, token, path)
			}
		}, quiet())
		h := g.guard(viewRight, http.NotFoundHandler())
		if w := show(t, h, "/", "Bearer v"); w.Code != http.StatusNotFound {
			t.Fatalf("allowed: %d", w.Code)
		}
		api.users["v"] = ""
		for range 30 {
			time.Sleep(freshFor)
			closed, end := context.WithTimeout(t.Context(), time.Millisecond)
			r := httptest.NewRequestWithContext(closed, http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer v")
			h.ServeHTTP(httptest.NewRecorder(), r)
			end()
			if w := show(t, h, "/", "Bearer v"); w.Code != http.StatusUnauthorized {
				t.Fatalf("revoked: %d", w.Code)
			}
		}
	})
}

// TestTriesKeepNoReviewAway checks that, while others try tokens, a previously permitted token is reviewed at once, and
// an unknown token in its turn.
func TestTriesKeepNoReviewAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := known()
		h := newGate(func(ctx context.Context, token, path string) (Verdict, error) {
			if strings.HasPrefix(token, "try-") {
				time.Sleep(time.Second)
				return Verdict{}, nil
			}
			return api.review(ctx, token, path)
		}, quiet()).guard(viewRight, http.NotFoundHandler())
		show(t, h, "/", "Bearer v")
		time.Sleep(freshFor)
		api.users["v"] = ""
		codes := tries(t, h, 3*mostReviews)
		began := time.Now()
		if w := show(t, h, "/", "Bearer v"); w.Code != http.StatusUnauthorized || time.Since(began) > 0 {
			t.Errorf("revoked: %d after %s", w.Code, time.Since(began))
		}
		if w := show(t, h, "/", "Bearer x"); w.Code != http.StatusForbidden || time.Since(began) != 3*time.Second {
			t.Errorf("not known before: %d after %s", w.Code, time.Since(began))
		}
		for range 3 * mostReviews {
			if code := <-codes; code != http.StatusUnauthorized {
				t.Errorf("tried: %d", code)
			}
		}
	})
}

// TestOneReviewOfToken checks that concurrent requests with the same token cause a single review.
func TestOneReviewOfToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		h := newGate(func(context.Context, string, string) (Verdict, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return Verdict{User: "viewer", Allowed: true}, nil
		}, quiet()).guard(viewRight, http.NotFoundHandler())
		for minute := range int32(3) {
			codes := make(chan int, 100)
			for range cap(codes) {
				go func() { codes <- show(t, h, "/", "Bearer v").Code }()
			}
			for range cap(codes) {
				if code := <-codes; code != http.StatusNotFound {
					t.Errorf("code %d", code)
				}
			}
			if n := asked.Load(); n != minute+1 {
				t.Errorf("%d reviews in %d minutes", n, minute+1)
			}
			time.Sleep(freshFor)
		}
	})
}
