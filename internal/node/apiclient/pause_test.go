package apiclient_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-project/berth/internal/node/apiclient"
)

func TestPause(t *testing.T) {
	for name, c := range map[string]struct {
		ends time.Duration
		want time.Duration
	}{"it waits": {time.Hour, time.Minute}, "the context ends": {time.Second, time.Second}, "it ended before": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), c.ends)
				defer stop()
				began := time.Now()
				waited := apiclient.Pause(ctx, time.Minute)
				if took := time.Since(began); took != c.want || waited != (c.want == time.Minute) {
					t.Errorf("%v after %s", waited, took)
				}
			})
		})
	}
}
