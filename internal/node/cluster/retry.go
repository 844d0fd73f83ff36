package cluster

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The intervals of retries.
const (
	retryFirst = time.Second
	retryMax   = time.Minute
)

// backoff returns the pause after a number of failures in a row, 1 for the first. It doubles each time, plus up to half
// at random, so that the nodes of a cluster do not retry together.
func backoff(failures int) time.Duration {
	pause := retryFirst << min(max(failures-1, 0), 6)
	pause = min(pause, retryMax)
	return pause + rand.N(pause/2)
}

// answered reports whether the API server answered, even with a refusal.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err)
}
