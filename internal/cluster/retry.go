package cluster

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Distances of retries.
const (
	retryFirst = time.Second
	retryMax   = time.Minute
)

// backoff returns the distance to the next try after some failures in a row, 1 for
// the first: doubled each time, and up to half of it more, so that the nodes of a
// cluster do not come all at once.
func backoff(failures int) time.Duration {
	pause := retryFirst << min(max(failures-1, 0), 6)
	pause = min(pause, retryMax)
	return pause + rand.N(pause/2)
}

// answered says whether the API server answered, be it with a refusal.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err)
}

// bucket limits how often something happens. The zero value is full.
type bucket struct {
	used float64
	at   time.Time
}

// take says whether once more is within size at once and one more each pause.
func (b *bucket) take(now time.Time, size float64, pause time.Duration) bool {
	if !b.at.IsZero() {
		b.used = max(0, b.used-float64(now.Sub(b.at))/float64(pause))
	}
	b.at = now
	if b.used+1 > size {
		return false
	}
	b.used++
	return true
}
