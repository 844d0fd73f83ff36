package seeds

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The computation of the document: digits of Pi, and threads.
const (
	PiDigits  = 20_000
	PiThreads = 3_000
)

// pi computes digits of Pi in a group.
type pi struct{ host }

func (h host) openPi(context.Context) (Opened, error) {
	if h.machine.Online.Size() < 2 {
		return nil, fmt.Errorf("%w a second CPU to borrow", bench.ErrMissing)
	}
	return &pi{h}, nil
}

func (p *pi) Load() string {
	return fmt.Sprintf("%d digits of Pi on %d threads, again and again, by Machin's formula; a limit of %d CPUs of %d", PiDigits, PiThreads, p.cpus(), p.machine.Online.Size())
}

func (p *pi) Run(ctx context.Context, a Arm) (v Values, err error) {
	stage, err := bench.OpenStage(p.Place, "pi", p.quotaOf(p.cpus()), "hold")
	if err != nil {
		return Values{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if a.Name != Limited {
		policy := ""
		if a.Name == StaticBurst {
			policy = StaticBurst
		}
		agent, err := p.pin(ctx, stage, p.cpus(), policy, cpuset.Set{})
		if err != nil {
			return Values{}, err
		}
		defer func() { err = errors.Join(err, agent.Remove()) }()
	}
	said, err := stage.Run(ctx, "pi", "--digits", strconv.Itoa(PiDigits), "--threads", strconv.Itoa(PiThreads), "--for", a.Duration.String())
	if err != nil {
		return Values{}, err
	}
	millis, err := strconv.ParseFloat(said, 64)
	if err != nil {
		return Values{}, fmt.Errorf("%w: load pi printed %q", bench.ErrChild, said)
	}
	return Values{Of: map[string]float64{"time": millis}, Raw: said + " ms, mean over " + a.Duration.Round(time.Millisecond).String() + "\n"}, nil
}

func (p *pi) Close() error { return nil }
