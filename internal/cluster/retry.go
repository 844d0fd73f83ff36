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
